#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "data/labelled.h"
#include "fovea/context.h"
#include "io/file.h"

// ListOps of the Long-Range Arena: nested lists under MIN, MAX, MED (median) and SM (sum modulo 10); the answer is the
// value, a digit. An expression is its tokens in order; the text form wraps every application in parentheses,
// "( ( ( [MAX 2 ) 9 ) ] )", which carry nothing and are dropped when reading.
namespace fovea::listops {

// Ids 1..15; 0 is padding.
inline constexpr int kVocabulary = 16;
inline constexpr int kClasses = 10;
enum Token : std::uint8_t { kMin = 1, kMax, kMed, kSum, kClose, kDigit0 };  // kDigit0 + d is the digit d

using Tokens = std::vector<std::uint8_t>;

int evaluate(const Tokens& tokens);  // one whole expression; refuses anything else, naming the token
std::string print(const Tokens& tokens);
Tokens parse(std::string_view text);  // parse(print(tokens)) == tokens; with and without parentheses

// The published distribution: a node is an operator with probability 1/4, with 2 to 10 arguments, at most 10 levels
// deep; trees of 501 to 1999 tokens are kept, no tree twice.
struct TreeShape {
  int max_depth = 10;
  int max_arguments = 10;
  int min_length = 501;
  int max_length = 1999;
};

// The endless sequence of distinct examples that a seed defines, handed out in order. Example i is the same in whatever
// portions it is asked for and however many threads work.
class Generator {
 public:
  explicit Generator(std::uint64_t seed, TreeShape shape = {});

  std::vector<Example> next(const Context& context, std::size_t count);

 private:
  void draw_more(const Context& context);

  std::uint64_t seed_;
  TreeShape shape_;
  std::uint64_t drawn_ = 0;                 // trees drawn so far, kept or not: tree j has its own random stream j
  std::deque<Example> ready_;               // kept, not yet handed out
  std::unordered_set<std::uint64_t> seen_;  // hashes of the trees kept
};

// At most the published sizes of validation and test set.
struct Sizes {
  std::size_t train = 96000, validation = 2000, test = 2000;
};

// The validation set comes first in the sequence, then the test set, then the training set: a short run that asks for
// fewer training examples gets the first ones of the same set, and the same test set.
LabelledData generate(const Context& context, std::uint64_t seed, Sizes sizes = {}, TreeShape shape = {});

// Tab-separated files as published: basic_train.tsv, basic_val.tsv, basic_test.tsv with the columns Source and Target.
// Reading also takes train.tsv, val.tsv, test.tsv.
// Reading checks every label against its expression.
void write(const Context& context, const LabelledData& dataset, const Path& folder);
LabelledData read(const Context& context, const Path& folder);
void write_examples(const Context& context, const std::vector<Example>& examples, const Path& path);
std::vector<Example> read_examples(const Context& context, const Path& path);

}  // namespace fovea::listops
