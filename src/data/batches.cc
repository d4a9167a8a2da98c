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

}  // namespace

Batch to_device(const Context& context, Batch batch) {
  for (Tensor* t : {&batch.input.values, &batch.input.marks, &batch.second.values, &batch.second.marks, &batch.targets})
    if (t->defined() && is_float(t->dtype()) && t->device() != context.device()) *t = t->clone(context);
  return batch;
}

Batch make_batch(const Context& context, const Split& split, std::span<const std::int64_t> examples,
                 std::uint64_t draw) {
  if (context.device() == Device::cpu) return split.batch(context, examples, draw);
  const Context host({.threads = context.threads(), .seed = context.seed()});
  return to_device(context, split.batch(host, examples, draw));
}

Batches::Batches(const Split& split, BatchOptions options, BatchPosition start)
    : split_(&split),
      options_(options),
      count_(options.limit > 0 ? std::min(options.limit, split.size()) : split.size()),
      position_(start) {
  if (count_ == 0) fail(ErrorCode::bad_input, "the data set has no examples");
  if (count_ > std::numeric_limits<std::uint32_t>::max()) fail(ErrorCode::usage, "more than 2^32 examples");
  if (options.batch_size < 1) fail(ErrorCode::usage, "batch_size must be at least 1", "batch_size");
  if (start.epoch < 0 || start.used < 0 || start.used > count_)
    fail(ErrorCode::bad_input, "this data set cannot be resumed at example " + std::to_string(start.used), "position",
         "it has " + std::to_string(count_) + " examples: is it the one the checkpoint was made with?");
  start_epoch(start.epoch);
  position_.used = start.used;
}

std::int64_t Batches::batches_per_epoch() const { return (count_ + options_.batch_size - 1) / options_.batch_size; }

BatchPlan Batches::plan() {
  if (epoch_done()) start_epoch(position_.epoch + 1);
  const auto begin = order_.begin() + position_.used;
  const std::int64_t count = std::min(options_.batch_size, order_.end() - begin);
  const auto draw = static_cast<std::uint64_t>(position_.epoch * count_ + position_.used);
  position_.used += count;
  return {{begin, begin + count}, draw, position_};
}

void Batches::start_epoch(std::int64_t epoch) {
  position_ = {epoch, 0};
  order_.resize(static_cast<std::size_t>(count_));
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
  for (std::int64_t first = 0; first < count; first += window)
    std::stable_sort(order_.begin() + first, order_.begin() + std::min(count, first + window),
                     [&](std::int64_t a, std::int64_t b) { return split_->length(a) < split_->length(b); });
  std::vector<std::int64_t> places(static_cast<std::size_t>(whole));
  std::iota(places.begin(), places.end(), 0);
  Random random(options_.seed, kStream + 2 * static_cast<std::uint64_t>(position_.epoch) + 1);
  shuffle(std::span(places), random);
  const std::vector<std::int64_t> sorted = order_;
  for (std::int64_t i = 0; i < whole; ++i)
    std::copy_n(sorted.begin() + places[static_cast<std::size_t>(i)] * size, size, order_.begin() + i * size);
}

}  // namespace fovea
