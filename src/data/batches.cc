#include "data/batches.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <string>

#include "core/rng.h"
#include "fovea/error.h"

namespace fovea {
namespace {

constexpr std::uint64_t kStream = std::uint64_t{0x62617463}
                                  << 32;  // keeps these draws apart from other users of the seed

template <class T>
void shuffle(std::span<T> items, Random& random) {
  for (std::size_t i = items.size(); i > 1; --i)
    std::swap(items[i - 1], items[random.below(static_cast<std::uint32_t>(i))]);
}

std::int64_t length(const Example& example) { return static_cast<std::int64_t>(example.tokens.size()); }

void copy_tokens(const Example& example, std::int32_t* out) {
  std::copy(example.tokens.begin(), example.tokens.end(), out);
}

}  // namespace

Batch make_batch(const Context& context, std::span<const Example> set, std::vector<std::int64_t> examples,
                 BatchLayout layout) {
  Batch batch{.ids = {}, .labels = {}, .sequences = {}, .examples = std::move(examples)};
  batch.labels = Tensor::empty(context, {batch.size()}, DType::i32);
  std::int64_t total = 0, longest = 0;
  std::vector<std::int32_t> lengths, offsets = {0};
  for (std::int64_t i = 0; i < batch.size(); ++i) {
    const Example& example = set[static_cast<std::size_t>(batch.examples[static_cast<std::size_t>(i)])];
    total += length(example);
    longest = std::max(longest, length(example));
    if (total > std::numeric_limits<std::int32_t>::max())
      fail(ErrorCode::usage, "a batch has more than 2^31 tokens", "batch_size", "a smaller batch");
    lengths.push_back(static_cast<std::int32_t>(length(example)));
    offsets.push_back(static_cast<std::int32_t>(total));
    batch.labels.data<std::int32_t>()[i] = example.label;
  }
  const bool packed = layout == BatchLayout::packed;
  const Shape shape = packed ? Shape{1, total} : Shape{batch.size(), longest};
  batch.ids = Tensor::zeros(context, shape, DType::i32);
  for (std::size_t i = 0; i < batch.examples.size(); ++i) {
    const std::int64_t start = packed ? offsets[i] : static_cast<std::int64_t>(i) * longest;
    copy_tokens(set[static_cast<std::size_t>(batch.examples[i])], batch.ids.data<std::int32_t>() + start);
  }
  if (packed)
    batch.sequences.cu_seqlens = std::move(offsets);
  else
    batch.sequences.lengths = std::move(lengths);
  return batch;
}

Batches::Batches(std::span<const Example> set, BatchOptions options, BatchPosition start)
    : set_(set), options_(options), position_(start) {
  if (set.empty()) fail(ErrorCode::bad_input, "the data set has no examples");
  if (set.size() > std::numeric_limits<std::uint32_t>::max()) fail(ErrorCode::usage, "more than 2^32 examples");
  for (std::size_t i = 0; i < set.size(); ++i)
    if (set[i].tokens.empty()) fail(ErrorCode::bad_input, "example " + std::to_string(i) + " has no tokens");
  if (options.batch_size < 1) fail(ErrorCode::usage, "batch_size must be at least 1", "batch_size");
  if (start.epoch < 0 || start.used < 0 || start.used > static_cast<std::int64_t>(set.size()))
    fail(ErrorCode::bad_input, "this data set cannot be resumed at example " + std::to_string(start.used), "position",
         "it has " + std::to_string(set.size()) + " examples: is it the one the checkpoint was made with?");
  start_epoch(start.epoch);
  position_.used = start.used;
}

std::int64_t Batches::batches_per_epoch() const {
  return (static_cast<std::int64_t>(set_.size()) + options_.batch_size - 1) / options_.batch_size;
}

Batch Batches::next(const Context& context) {
  if (epoch_done()) start_epoch(position_.epoch + 1);
  const auto begin = order_.begin() + position_.used;
  const std::int64_t count = std::min(options_.batch_size, order_.end() - begin);
  position_.used += count;
  return make_batch(context, set_, {begin, begin + count}, options_.layout);
}

void Batches::start_epoch(std::int64_t epoch) {
  position_ = {epoch, 0};
  order_.resize(set_.size());
  std::iota(order_.begin(), order_.end(), 0);
  if (!options_.shuffle) return;
  Random random(options_.seed, kStream + 2 * static_cast<std::uint64_t>(epoch));
  shuffle(std::span(order_), random);
  if (options_.window > 1) group_by_length();
}

// Sorts each window of the shuffled order by length, then shuffles all whole batches, so that a model does not see the
// short examples of every window first. A smaller last batch stays last.
void Batches::group_by_length() {
  const auto count = static_cast<std::int64_t>(order_.size());
  const std::int64_t size = options_.batch_size, whole = count / size;
  const std::int64_t window = std::min(options_.window, whole + 1) * size;
  for (std::int64_t first = 0; first < count; first += window) {
    std::stable_sort(
        order_.begin() + first, order_.begin() + std::min(count, first + window), [&](std::int64_t a, std::int64_t b) {
          return set_[static_cast<std::size_t>(a)].tokens.size() < set_[static_cast<std::size_t>(b)].tokens.size();
        });
  }
  std::vector<std::int64_t> places(static_cast<std::size_t>(whole));
  std::iota(places.begin(), places.end(), 0);
  Random random(options_.seed, kStream + 2 * static_cast<std::uint64_t>(position_.epoch) + 1);
  shuffle(std::span(places), random);
  const std::vector<std::int64_t> sorted = order_;
  for (std::int64_t i = 0; i < whole; ++i)
    std::copy_n(sorted.begin() + places[static_cast<std::size_t>(i)] * size, size, order_.begin() + i * size);
}

}  // namespace fovea
