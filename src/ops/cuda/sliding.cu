#include "ops/sliding_kernels.h"

#include "core/wide.h"
#include "ops/cuda/packs.cuh"

namespace fovea {
namespace {

using namespace device;  // NOLINT

template <class R>
void run(const Context& context, const kernels::SlidingPool& io) {
  const std::int64_t m = io.index.dim(1), size = io.index.dim(2), n = io.x.dim(1), width = io.x.dim(2);
  const Elements<R> x = elements<R>(io.x), y = elements<R>(io.y);
  const std::int32_t* const index = pointer<std::int32_t>(io.index);
  std::int32_t* const taps = pointer<std::int32_t>(io.taps);
  const bool packs = has_packs(io.x, 2) && has_packs(io.y, 2);
  each_pack(context, {io.y.dim(0) * m, width}, packs,
            [=] __device__(auto neighbours, std::int64_t window, std::int64_t column) {
              constexpr int kCount = decltype(neighbours)::count;
              const R share = R(1) / static_cast<R>(size);
              R best[kCount] = {}, value[kCount];
              std::int32_t won[kCount];
              for (std::int32_t& tap : won) tap = -1;
              for (std::int64_t t = 0; t < size; ++t) {
                const std::int64_t row = index[window * size + t];
                if (row < 0) continue;
                load(x, (window / m * n + row) * width + column, value);
                for (int k = 0; k < kCount; ++k) {
                  const bool wins = won[k] < 0 || value[k] > best[k] || (value[k] != value[k] && best[k] == best[k]);
                  if (taps == nullptr)
                    best[k] += share * value[k];
                  else if (wins)
                    best[k] = value[k], won[k] = static_cast<std::int32_t>(t);
                }
              }
              store(y, window * width + column, best);
              if (taps == nullptr) return;
              for (int k = 0; k < kCount; ++k) taps[window * width + column + k] = won[k];
            });
}

// Places of the index by the row of (b n) they name.
Groups by_row(const Context& context, const kernels::SlidingPoolVjp& io) {
  const std::int64_t of_item = io.index.dim(1) * io.index.dim(2), n = io.sums.dim(1);
  const Tensor keys = Tensor::empty(context, {io.index.numel()}, DType::i32, Lifetime::scratch);
  const std::int32_t* const index = pointer<std::int32_t>(io.index);
  std::int32_t* const key = pointer<std::int32_t>(keys);
  each(context, io.index.numel(), [=] __device__(std::int64_t i) {
    key[i] = index[i] < 0 ? -1 : static_cast<std::int32_t>(i / of_item * n + index[i]);
  });
  return groups_of(context, keys, io.sums.dim(0) * n);
}

template <class R>
void vjp(const Context& context, const kernels::SlidingPoolVjp& io) {
  const std::int64_t size = io.index.dim(2), width = io.g.dim(2);
  const Elements<R> g = elements<R>(io.g);
  const std::int32_t* const taps = pointer<std::int32_t>(io.taps);
  R* const sums = pointer<R>(io.sums);
  add_groups<R>(
      context, by_row(context, io), width,
      [=] __device__(std::int64_t place, std::int64_t c) -> R {
        const std::int64_t at = place / size * width + c;
        if (taps == nullptr) return g[at] / static_cast<R>(size);
        return taps[at] == place % size ? g[at] : R(0);
      },
      [=] __device__(std::int64_t row, std::int64_t c, R sum) { sums[row * width + c] += sum; });
}

}  // namespace

template <>
void kernels::sliding_pool<Device::cuda>(const Context& context, const SlidingPool& io) {
  visit_wide(io.x.dtype(), [&]<class R>() { run<R>(context, io); });
}

template <>
void kernels::sliding_pool_backward<Device::cuda>(const Context& context, const SlidingPoolVjp& io) {
  visit_wide(io.g.dtype(), [&]<class R>() { vjp<R>(context, io); });
}

}  // namespace fovea
