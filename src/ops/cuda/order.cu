#include "ops/order_kernels.h"

#include "core/wide.h"
#include "ops/cuda/sequences.cuh"
#include "ops/cuda/split.cuh"

namespace fovea {
namespace {

using namespace device;  // NOLINT

// Elements of (b, n, heads), numbered in order. Those of a sequence and head are a segment.
struct Segmented {
  RowOwners::View owner;
  std::int64_t heads;

  std::int64_t count() const { return owner.count * heads; }
  __device__ std::int64_t row(std::int64_t i) const { return split(split(i, heads).whole, owner.n).rest; }
  __device__ std::int32_t segment(std::int64_t i) const {
    const Split at = split(i, heads);
    const std::int64_t sequence = owner(at.whole);
    return sequence < 0 ? -1 : static_cast<std::int32_t>(sequence * heads + at.rest);
  }
};

// The elements of each segment in the order of their keys: place p of segment t is elements[order[begin_t + p]].
struct SegmentOrder {
  Tensor elements;  // i32 (count): all of them by their keys
  Groups groups;    // of those, by segments
};

SegmentOrder order_of(const Context& context, const Tensor& keys, const Segmented& of) {
  const std::int64_t count = keys.numel();
  const Tensor elements = sorted_order(context, keys.reshape({1, count})).reshape({count});
  const Tensor segments = Tensor::empty(context, {count}, DType::i32, Lifetime::scratch);
  std::int32_t* const to = pointer<std::int32_t>(segments);
  const std::int32_t* const from = pointer<std::int32_t>(elements);
  each(context, count, [=] __device__(std::int64_t i) { to[i] = of.segment(from[i]); });
  return {elements, groups_of(context, segments, of.count())};
}

// Whole numbers in the order of descending scores; NaN behind all, and -0 beside 0.
__device__ inline std::int32_t descending(float x) {
  if (x != x) return INT32_MAX;
  const std::int32_t bits = __float_as_int(x + 0.0f);
  return ~(bits < 0 ? bits ^ INT32_MAX : bits);
}
__device__ inline std::int64_t descending(double x) {
  if (x != x) return INT64_MAX;
  const std::int64_t bits = __double_as_longlong(x + 0.0);
  return ~(bits < 0 ? bits ^ INT64_MAX : bits);
}

template <class R>
Tensor keys_of(const Context& context, const Tensor& scores) {
  using Key = std::conditional_t<sizeof(R) == 8, std::int64_t, std::int32_t>;
  const Tensor keys =
      Tensor::empty(context, scores.shape(), sizeof(R) == 8 ? DType::i64 : DType::i32, Lifetime::scratch);
  const Elements<R> from = elements<R>(scores);
  Key* const to = pointer<Key>(keys);
  each(context, scores.numel(), [=] __device__(std::int64_t i) { to[i] = descending(from[i]); });
  return keys;
}

// The segment of each element that is among the first `count` of it; -1 for the others.
Tensor chosen_segments(const Context& context, const SegmentOrder& found, std::int64_t count) {
  const Tensor chosen = Tensor::empty(context, {found.groups.count}, DType::i32, Lifetime::scratch);
  const std::int32_t *const elements = pointer<std::int32_t>(found.elements),
                            *const order = pointer<std::int32_t>(found.groups.order),
                            *const target = pointer<std::int32_t>(found.groups.target),
                            *const begin = pointer<std::int32_t>(found.groups.begin);
  std::int32_t* const to = pointer<std::int32_t>(chosen);
  const std::int64_t segments = found.groups.targets;
  each(context, found.groups.count, [=] __device__(std::int64_t place) {
    const std::int32_t t = target[place];
    const bool is_chosen = t < segments && place - begin[t] < count;
    to[elements[order[place]]] = is_chosen ? t : -1;
  });
  return chosen;
}

// out: `count` rows of heads for each sequence.
void write_chosen(const Context& context, const kernels::TopIndices& io, const Segmented& of, const Groups& groups) {
  const std::int32_t *const order = pointer<std::int32_t>(groups.order), *const begin =
                                                                             pointer<std::int32_t>(groups.begin);
  std::int32_t* const out = pointer<std::int32_t>(io.out);
  const std::int64_t count = io.count;
  each(context, io.out.numel(), [=] __device__(std::int64_t i) {
    const Split by_head = split(i, of.heads), by_sequence = split(by_head.whole, count);
    const std::int64_t t = by_sequence.whole * of.heads + by_head.rest, place = begin[t] + by_sequence.rest;
    out[i] = place < begin[t + 1] ? static_cast<std::int32_t>(of.row(order[place])) : -1;
  });
}

void write_sorted(const Context& context, const kernels::Argsort& io, const Segmented& of, const SegmentOrder& found) {
  const std::int32_t *const elements = pointer<std::int32_t>(found.elements),
                            *const order = pointer<std::int32_t>(found.groups.order),
                            *const begin = pointer<std::int32_t>(found.groups.begin);
  std::int32_t* const out = pointer<std::int32_t>(io.out);
  each(context, io.out.numel(), [=] __device__(std::int64_t i) {
    const std::int64_t t = of.segment(i), row = of.row(i);
    const std::int64_t in_sequence = t < 0 ? 0 : row - of.owner.list[t / of.heads].begin;
    out[i] = static_cast<std::int32_t>(t < 0 ? row : of.row(elements[order[begin[t] + in_sequence]]));
  });
}

}  // namespace

// By scores, then by segments; the first of each segment are then listed in the order of their rows.
template <>
void kernels::top_indices<Device::cuda>(const Context& context, const TopIndices& io) {
  if (io.out.numel() == 0) return;
  const RowOwners owners(context, *io.sequences, io.scores.dim(1));
  const Segmented of{owners.view(), io.scores.dim(2)};
  const Tensor keys = visit_wide(io.scores.dtype(), [&]<class R>() { return keys_of<R>(context, io.scores); });
  const SegmentOrder found = order_of(context, keys, of);
  write_chosen(context, io, of, groups_of(context, chosen_segments(context, found, io.count), of.count()));
}

template <>
void kernels::argsort<Device::cuda>(const Context& context, const Argsort& io) {
  if (io.out.numel() == 0) return;
  const RowOwners owners(context, *io.sequences, io.keys.dim(1));
  const Segmented of{owners.view(), io.keys.dim(2)};
  write_sorted(context, io, of, order_of(context, io.keys, of));
}

}  // namespace fovea
