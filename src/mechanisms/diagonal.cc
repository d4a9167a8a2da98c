#include "mechanisms/diagonal.h"

#include <algorithm>
#include <cmath>

namespace fovea {
namespace {

// Every row of x the other way round.
Tensor reversed_rows(const Context& context, const Tensor& x) {
  const Tensor from = x.contiguous(context), out = Tensor::empty(context, x.shape(), x.dtype());
  const std::int64_t width = x.dim(-1);
  visit_float(x.dtype(), [&]<class T>() {
    for (std::int64_t i = 0; i < x.numel(); i += width)
      std::reverse_copy(from.data<T>() + i, from.data<T>() + i + width, out.data<T>() + i);
  });
  return out;
}

void turn_backward(Tape& tape, Node& node) {
  tape.accumulate(node.inputs[0], reversed_rows(tape.context(), node.grad()));
}

constexpr Op kTurn{"turned_diagonals", turn_backward};

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

Var turned_diagonals(Tape& tape, const Var& bias) {
  return tape.record(kTurn, {bias}, reversed_rows(tape.context(), bias.value()), {});
}

Tensor sum_diagonals(const Context& context, const Tensor& parts, const Shape& shape,
                     const std::vector<std::int64_t>& batch) {
  const Tensor sum = Tensor::zeros(context, shape, parts.dtype());
  const std::int64_t heads = parts.dim(1), width = parts.dim(2);
  visit_float(sum.dtype(), [&]<class T>() {
    for (std::size_t piece = 0; piece < batch.size(); ++piece)
      for (std::int64_t head = 0; head < heads; ++head) {
        const std::int64_t item = shape[0] == 1 ? 0 : batch[piece], row = shape[1] == 1 ? 0 : head;
        const T* from = parts.data<T>() + (static_cast<std::int64_t>(piece) * heads + head) * width;
        T* to = sum.data<T>() + (item * shape[1] + row) * width;
        for (std::int64_t i = 0; i < width; ++i) to[i] = static_cast<T>(to[i] + from[i]);
      }
  });
  return sum;
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
  std::vector<std::int32_t> bucket;
  for (std::int64_t i = 0; i < 2 * length - 1; ++i) bucket.push_back(t5_bucket(i - length + 1, buckets));
  const Index index(Tensor::from<std::int32_t>(tape.context(), {std::ssize(bucket)}, bucket), 0, buckets.count);
  const Var rows = transpose(tape, gather(tape, table, index), 0, 1);  // (heads, 2 L - 1)
  return reshape(tape, rows, {1, table.dim(1), 2 * length - 1});
}

}  // namespace fovea
