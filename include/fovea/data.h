#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "fovea/export.h"
#include "fovea/sequences.h"
#include "fovea/tensor.h"

namespace fovea {

// What is asked of a model. It decides the model's head, the loss and what a batch holds.
enum class Task : std::uint8_t {
  classify,    // a class of a sequence of tokens
  match,       // a class of two sequences
  lm,          // the next token, everywhere
  mlm,         // the tokens that were masked
  seq2seq,     // a second sequence, token by token
  vision,      // a class of a picture
  image_text,  // which picture belongs to which text
  forecast,    // how numbers go on
  encode,      // nothing: the vectors of tokens or pictures themselves
};
FOVEA_EXPORT std::vector<std::string_view> task_names();  // in the order of Task

// One side of what a model reads, and how its rows divide into sequences.
struct Input {
  Tensor ids = {};     // i32 (1, total) packed, or (b, n) padded with 0
  Tensor types = {};   // i32, like ids: which part of its text a token belongs to; undefined: all 0
  Tensor values = {};  // f32: pictures (b, height, width, channels), measurements (b, n, channels)
  Tensor marks = {};   // f32 (b, n, features): the time of each measurement
  Sequences rows = {};

  std::int64_t tokens() const { return ids.defined() ? ids.numel() : values.defined() ? values.dim(0) : 0; }
};

// Some examples, as a model reads them.
struct Batch {
  Input input = {};
  Input second = {};  // the other document; what the decoder reads; the texts of pictures
  // i32: a class for each sequence, or a token for each row of what is asked for, -1 where nothing is; f32 (b, horizon,
  // channels): the numbers to be foretold. Undefined where there is nothing to compare with.
  Tensor targets = {};
  std::vector<std::int64_t> examples = {};  // which ones, as indices into the split

  std::int64_t size() const { return static_cast<std::int64_t>(examples.size()); }
  std::int64_t tokens() const { return input.tokens() + second.tokens(); }
};

// Examples that can be put into batches, in any order and from any thread.
class FOVEA_EXPORT Split {
 public:
  virtual ~Split() = default;
  virtual std::int64_t size() const = 0;
  virtual std::int64_t length(std::int64_t example) const = 0;  // rows, for batches of similar lengths
  // Random choices (which tokens are masked) depend on the context's seed and `draw` alone.
  virtual Batch batch(const Context& context, std::span<const std::int64_t> examples, std::uint64_t draw) const = 0;
  virtual std::uint64_t hash() const = 0;  // of all contents: a resumed run must have the same
  // Accuracy of always giving the most frequent answer; 0 where whole inputs have no classes.
  virtual double majority() const { return 0.0; }
};

// A task with its examples. Sizes that do not apply are 0.
struct Dataset {
  std::string name;
  Task task = Task::classify;
  std::int64_t classes = 0;
  std::int64_t vocabulary = 0;         // ids are below this
  std::int64_t max_length = 0;         // of any first input
  std::int64_t second_vocabulary = 0;  // of the second input; 0: the same vocabulary
  std::int64_t second_max_length = 0;
  std::int64_t height = 0, width = 0, channels = 0;  // of pictures; of measurements only channels
  std::int64_t horizon = 0, marks = 0;               // rows to forecast, features of a row's time
  std::shared_ptr<const Split> train = {}, validation = {}, test = {};
};

FOVEA_EXPORT bool empty(const std::shared_ptr<const Split>& split);

}  // namespace fovea
