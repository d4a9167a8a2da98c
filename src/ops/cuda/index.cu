#include "ops/index_kernels.h"

#include "ops/cuda/find_first.cuh"
#include "ops/cuda/split.cuh"

namespace fovea {
namespace {

using namespace device;  // NOLINT

// Where a row of an item and head is remembered.
struct Slots {
  const std::int32_t* index;  // (b, picks, heads)
  std::int64_t picks, heads, rows;

  __device__ std::int64_t operator()(std::int64_t i) const {
    const Split by_head = split(i, heads);
    return (split(by_head.whole, picks).whole * rows + index[i]) * heads + by_head.rest;
  }
};

}  // namespace

template <>
void kernels::first_outside<Device::cuda>(const Context& context, const IndexRange& io) {
  const std::int32_t* const index = pointer<std::int32_t>(io.index);
  const std::int64_t least = io.least, limit = io.limit;
  find_first(context, io.index.numel(), io.place,
             [=] __device__(std::int64_t i) { return index[i] < least || index[i] >= limit; });
}

// The first pick of each row, then the first pick that is not the first of its row.
template <>
void kernels::first_repeated<Device::cuda>(const Context& context, const IndexOnce& io) {
  const std::int64_t picks = io.index.dim(1), heads = io.index.dim(2);
  const Slots slot{pointer<std::int32_t>(io.index), picks, heads, io.rows};
  const Tensor scratch = Tensor::empty(context, {io.index.dim(0) * io.rows * heads}, DType::i64, Lifetime::scratch);
  scratch.fill(-1.0);
  auto* const first = reinterpret_cast<unsigned long long*>(pointer<std::int64_t>(scratch));
  each(context, io.index.numel(), [=] __device__(std::int64_t i) {
    if (slot.index[i] >= 0) atomicMin(first + slot(i), static_cast<unsigned long long>(i));
  });
  find_first(context, io.index.numel(), io.place, [=] __device__(std::int64_t i) {
    return slot.index[i] >= 0 && first[slot(i)] != static_cast<unsigned long long>(i);
  });
}

}  // namespace fovea
