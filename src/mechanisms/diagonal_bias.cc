#include "mechanisms/diagonal_bias.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace fovea {
namespace {

// Buckets of distances 0, 1, ... of one direction: the first half one by one, then in steps that grow.
std::int32_t distance_bucket(std::int64_t distance, std::int64_t buckets, std::int64_t max_distance) {
  const std::int64_t exact = buckets / 2;
  if (distance < exact) return static_cast<std::int32_t>(distance);
  const double octaves = std::log(static_cast<double>(distance) / static_cast<double>(exact)) /
                         std::log(static_cast<double>(max_distance) / static_cast<double>(exact));
  const auto bucket = exact + static_cast<std::int64_t>(octaves * static_cast<double>(buckets - exact));
  return static_cast<std::int32_t>(std::min(bucket, buckets - 1));
}

}  // namespace

Var reversed_distances(Tape& tape, const Var& bias) {
  const std::int64_t width = bias.dim(2);
  std::vector<std::int32_t> last_first(static_cast<std::size_t>(width));
  std::iota(last_first.rbegin(), last_first.rend(), 0);
  const Index index(Tensor::from<std::int32_t>(tape.context(), {width}, last_first), 0, width);
  const Var by_distance = transpose(tape, reshape(tape, bias, {bias.dim(0) * bias.dim(1), width}), 0, 1);
  return reshape(tape, transpose(tape, gather(tape, by_distance, index), 0, 1), {bias.dim(0), bias.dim(1), width});
}

std::int32_t t5_bucket(std::int64_t offset, const Buckets& buckets) {
  if (!buckets.bidirectional)
    return distance_bucket(std::max<std::int64_t>(-offset, 0), buckets.count, buckets.max_distance);
  const std::int64_t half = buckets.count / 2;
  return static_cast<std::int32_t>(offset > 0 ? half : 0) +
         distance_bucket(std::abs(offset), half, buckets.max_distance);
}

void Buckets::check() const {
  const std::int64_t least = bidirectional ? 4 : 2;
  if (count < least || count % least != 0)
    fail(ErrorCode::usage, "relative positions in " + std::to_string(count) + " buckets", "buckets",
         "a multiple of " + std::to_string(least));
  if (max_distance <= count / least)
    fail(ErrorCode::usage, "a largest distance of " + std::to_string(max_distance), "max_distance",
         "more than the distances with a bucket of their own");
}

Var t5_bias(Tape& tape, const Var& table, std::int64_t length, const Buckets& buckets) {
  buckets.check();
  if (length < 1) fail(ErrorCode::usage, "a length of " + std::to_string(length), "length", "1 or more");
  if (!table.defined() || table.value().rank() != 2 || table.dim(0) != buckets.count)
    fail(ErrorCode::shape, "the table of relative positions must be (buckets, heads)", "table");
  std::vector<std::int32_t> bucket_of;
  for (std::int64_t offset = 1 - length; offset < length; ++offset) bucket_of.push_back(t5_bucket(offset, buckets));
  const Index index(Tensor::from<std::int32_t>(tape.context(), {2 * length - 1}, bucket_of), 0, buckets.count);
  const Var rows = transpose(tape, gather(tape, table, index), 0, 1);  // (heads, 2 L - 1)
  return reshape(tape, rows, {1, table.dim(1), 2 * length - 1});
}

}  // namespace fovea
