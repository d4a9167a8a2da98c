#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "fovea/export.h"
#include "fovea/sequences.h"
#include "fovea/tensor.h"

namespace fovea {

class FieldVisitor;
class Tokenizer;

// What is asked of a model. It decides the model's head, the loss and what a batch holds.
enum class Task : std::uint8_t {
  classify,    // a class of a sequence of tokens
  match,       // a class of two sequences
  regress,     // a number of a sequence, or of two
  lm,          // the next token, everywhere
  mlm,         // the tokens that were masked
  seq2seq,     // a second sequence, token by token
  vision,      // a class of a picture
  image_text,  // which picture belongs to which text
  forecast,    // how numbers go on
  encode,      // nothing: the vectors of tokens or pictures themselves
};
FOVEA_EXPORT std::vector<std::string_view> task_names();  // in the order of Task

// One side of what a model reads, and how its rows divide into sequences. Ids and types lie on the host best: a model
// looks at each of them, and then takes them to where it is.
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
  // i32: a class for each sequence, or a token for each row of what is asked for, -1 where nothing is; f32 (b): a
  // number for each sequence; f32 (b, horizon, channels): the numbers to be foretold. Undefined where there is nothing
  // to compare with.
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
  // Of the text that tokens stand for, so that losses of different tokenisers can be compared; 0: unknown.
  virtual double characters_per_token() const { return 0.0; }
};

// A task with its examples. Sizes that do not apply are 0.
struct Dataset {
  std::string name;
  Task task = Task::classify;
  std::int64_t classes = 0;
  std::int64_t vocabulary = 0;         // ids are below this
  std::int64_t max_length = 0;         // of any first input
  std::int64_t types = 0;              // of tokens: parts of a text that are told apart
  std::int64_t second_vocabulary = 0;  // of the second input; 0: the same vocabulary
  std::int64_t second_max_length = 0;
  std::int64_t height = 0, width = 0, channels = 0;  // of pictures; of measurements only channels
  std::int64_t horizon = 0, marks = 0;               // rows to forecast, features of a row's time
  // Of pictures and measurements, by channel: values are (x - mean) / deviation, x in [0, 1] for pictures. Of
  // numbers that texts are to be given: their mean alone, and they stay as they are.
  std::vector<double> mean = {}, deviation = {};
  std::vector<std::string> class_names = {};        // where the data has some: as it writes them
  std::shared_ptr<const Tokenizer> tokenizer = {};  // of the ids; none where they stand for something else
  std::shared_ptr<const Split> train = {}, validation = {}, test = {};
};

FOVEA_EXPORT bool empty(const std::shared_ptr<const Split>& split);

// What a data set is made from. The same names are used in JSON, after --set data. and in run.json. What a kind of data
// has no use for is passed over.
struct FOVEA_EXPORT DataSettings {
  std::string source = "listops";                    // "listops" or "pathfinder" (generated), a folder or a file
  std::string kind;                                  // one of data_kinds(); empty: told by the files
  std::int64_t train = 0, validation = 0, test = 0;  // examples of each, at most; 0: all
  std::uint64_t seed = 0;                            // of generated data
  std::int64_t length = 0;         // tokens of a window or, at most, of a text; 0: as the kind and the model have it
  std::string tokenizer;           // "bytes", "characters", "words", "bpe", a folder or a file; empty: by the kind
  std::int64_t vocabulary = 8000;  // of a tokeniser that is trained
  // Of labelled texts with a line of names, CSV and JSON lines: the columns to read; empty: found by their names.
  std::string label_column, text_column, second_column;
  std::string answers;  // of labelled texts: "classes" or "numbers"; empty: numbers where some have a fraction
  bool joined = false;  // of pairs of texts: read as one, as BERT does, not one beside the other
  std::string source_language, target_language;  // of parallel text: the ends of its files' names
  std::int64_t shift = 0;                        // pixels by which training pictures are moved at random
  std::int64_t size = 0;  // pictures with texts are drawn to it; 0: as the first is; of generated ones 32 or 64
  bool flip = false;      // training pictures are mirrored at random
  std::int64_t input_length = 96, label_length = 48, horizon = 24;  // rows of series: read, read again, foretold
  bool univariate = false;                                          // of series only the last column
  std::vector<double> mean = {}, deviation = {};                    // empty: those of the training part

  void fields(FieldVisitor& v);
};

struct DataKind {
  std::string_view name, summary;
};
FOVEA_EXPORT std::span<const DataKind> data_kinds();

// What the model that is to read the data decides.
struct DataUse {
  // Text serves lm and mlm, pictures vision and classify, what has labels also mlm, without them; none: what is usual.
  std::optional<Task> task = {};
  std::int64_t max_length = 0;                      // longest sequence; 0: no limit
  std::shared_ptr<const Tokenizer> tokenizer = {};  // of a model that is trained already
};

// Looks at the files, but does not read them.
FOVEA_EXPORT std::string_view data_kind(const DataSettings& settings);
FOVEA_EXPORT Task usual_task(const DataSettings& settings);
FOVEA_EXPORT Dataset load_data(const Context& context, const DataSettings& settings, const DataUse& use = {});

}  // namespace fovea
