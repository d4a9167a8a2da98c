#include <span>

#include "core/parallel.h"
#include "core/rng.h"
#include "data/listops/listops.h"
#include "fovea/error.h"

namespace fovea::listops {
namespace {

constexpr std::uint64_t kStream = std::uint64_t{0x6c697374}
                                  << 32;  // keeps these draws apart from other users of the seed
constexpr float kOperatorShare = 0.25f;
constexpr std::size_t kPublished = 2000;  // examples in the validation and in the test set

// Draws one tree. False as soon as it is too long to be kept.
bool draw_node(Random& random, const TreeShape& shape, int depth, Tokens& tokens) {
  if (tokens.size() >= static_cast<std::size_t>(shape.max_length)) return false;
  const bool leaf = depth >= shape.max_depth || random.uniform() > kOperatorShare;
  if (leaf) {
    tokens.push_back(static_cast<std::uint8_t>(kDigit0 + random.below(10)));
    return true;
  }
  const auto arguments = 2 + random.below(static_cast<std::uint32_t>(shape.max_arguments - 1));
  const std::size_t place = tokens.size();
  tokens.push_back(0);
  for (std::uint32_t i = 0; i < arguments; ++i)
    if (!draw_node(random, shape, depth + 1, tokens)) return false;
  tokens[place] = static_cast<std::uint8_t>(kMin + random.below(4));
  tokens.push_back(kClose);
  return tokens.size() <= static_cast<std::size_t>(shape.max_length);
}

// FNV-1a. Two different trees with one hash would cost one of them its place, once in 10^9 sets of 10^5.
std::uint64_t hash(const Tokens& tokens) {
  std::uint64_t h = 0xcbf29ce484222325u;
  for (const std::uint8_t token : tokens) h = (h ^ token) * 0x100000001b3u;
  return h;
}

}  // namespace

Generator::Generator(std::uint64_t seed, TreeShape shape) : seed_(seed), shape_(shape) {
  if (shape.max_arguments < 2 || shape.max_depth < 1 || shape.max_length < shape.min_length)
    fail(ErrorCode::usage, "no tree has this shape", "listops",
         "at least 2 arguments, depth 1, min_length <= max_length");
}

std::vector<Example> Generator::next(const Context& context, std::size_t count) {
  while (ready_.size() < count) draw_more(context);
  const auto end = ready_.begin() + static_cast<std::ptrdiff_t>(count);
  std::vector<Example> out(std::make_move_iterator(ready_.begin()), std::make_move_iterator(end));
  ready_.erase(ready_.begin(), end);
  return out;
}

// Draws a block of trees in parallel, then keeps the new ones in order: only this second part depends on what came
// before.
void Generator::draw_more(const Context& context) {
  constexpr std::int64_t kBlock = 1 << 15, kGrain = 256;
  std::vector<Example> drawn(kBlock);
  std::vector<std::uint64_t> hashes(kBlock);
  parallel_ranges(context, kBlock, kGrain, [&](std::int64_t begin, std::int64_t end) {
    Tokens tokens;
    for (std::int64_t i = begin; i < end; ++i) {
      tokens.clear();
      Random random(seed_, kStream + drawn_ + static_cast<std::uint64_t>(i));
      if (!draw_node(random, shape_, 1, tokens) || tokens.size() < static_cast<std::size_t>(shape_.min_length))
        continue;
      const auto at = static_cast<std::size_t>(i);
      hashes[at] = hash(tokens);
      drawn[at] = {tokens, evaluate(tokens)};
    }
  });
  drawn_ += kBlock;
  for (std::size_t i = 0; i < drawn.size(); ++i)
    if (!drawn[i].tokens.empty() && seen_.insert(hashes[i]).second) ready_.push_back(std::move(drawn[i]));
}

LabelledData generate(const Context& context, std::uint64_t seed, Sizes sizes, TreeShape shape) {
  if (sizes.validation > kPublished || sizes.test > kPublished)
    fail(ErrorCode::usage, "the validation and the test set have at most 2000 examples", "listops");
  Generator generator(seed, shape);
  LabelledData dataset{
      .name = "ListOps", .classes = kClasses, .vocabulary = kVocabulary, .max_length = shape.max_length + 1};
  dataset.validation = generator.next(context, kPublished);
  dataset.test = generator.next(context, kPublished);
  dataset.train = generator.next(context, sizes.train);
  dataset.validation.resize(sizes.validation);
  dataset.test.resize(sizes.test);
  return dataset;
}

}  // namespace fovea::listops
