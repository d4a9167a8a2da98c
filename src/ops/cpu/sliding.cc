#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/cpu/sliding.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep

#include <vector>

#include "hwy/highway.h"
#include "ops/sliding_kernels.h"
#include "ops/work.h"

HWY_BEFORE_NAMESPACE();
namespace fovea {
namespace HWY_NAMESPACE {
namespace {

template <class T, class R>
void add_row(const T* HWY_RESTRICT x, R factor, R* HWY_RESTRICT sums, std::int64_t width) {
  for (std::int64_t c = 0; c < width; ++c) sums[c] += factor * static_cast<R>(x[c]);
}

template <class T, class R>
void keep_larger(const T* HWY_RESTRICT x, std::int32_t tap, R* HWY_RESTRICT best, std::int32_t* HWY_RESTRICT taps,
                 std::int64_t width) {
  for (std::int64_t c = 0; c < width; ++c) {
    const R value = static_cast<R>(x[c]);
    const bool wins = taps[c] < 0 || value > best[c] || (value != value && best[c] == best[c]);
    best[c] = wins ? value : best[c];
    taps[c] = wins ? tap : taps[c];
  }
}

template <class T>
void pool_typed(const kernels::SlidingPool& io, std::int64_t begin, std::int64_t end) {
  using R = Wide<T>;
  const std::int64_t m = io.index.dim(1), size = io.index.dim(2), n = io.x.dim(1), width = io.x.dim(2);
  std::vector<R> best(static_cast<std::size_t>(width));
  for (std::int64_t window = begin; window < end; ++window) {
    const std::int32_t* rows = io.index.data<std::int32_t>() + window * size;
    std::int32_t* taps = io.taps.defined() ? io.taps.data<std::int32_t>() + window * width : nullptr;
    std::fill(best.begin(), best.end(), R(0));
    if (taps != nullptr) std::fill_n(taps, width, -1);
    for (std::int64_t t = 0; t < size; ++t) {
      if (rows[t] < 0) continue;
      const T* row = io.x.data<T>() + (window / m * n + rows[t]) * width;
      if (taps != nullptr)
        keep_larger(row, static_cast<std::int32_t>(t), best.data(), taps, width);
      else
        add_row(row, 1 / static_cast<R>(size), best.data(), width);
    }
    T* y = io.y.data<T>() + window * width;
    for (std::int64_t c = 0; c < width; ++c) y[c] = T(best[static_cast<std::size_t>(c)]);
  }
}

// The channels [begin, end) of one item: windows share rows, so one task goes through all of them.
template <class T>
void vjp_typed(const kernels::SlidingPoolVjp& io, std::int64_t item, std::int64_t begin, std::int64_t end) {
  using R = Wide<T>;
  const std::int64_t m = io.index.dim(1), size = io.index.dim(2), width = io.g.dim(2);
  R* sums = io.sums.data<R>() + item * io.sums.dim(1) * width;
  for (std::int64_t window = item * m; window < (item + 1) * m; ++window) {
    const std::int32_t* rows = io.index.data<std::int32_t>() + window * size;
    const T* g = io.g.data<T>() + window * width;
    if (!io.taps.defined()) {
      for (std::int64_t t = 0; t < size; ++t)
        if (rows[t] >= 0) add_row(g + begin, 1 / static_cast<R>(size), sums + rows[t] * width + begin, end - begin);
      continue;
    }
    const std::int32_t* taps = io.taps.data<std::int32_t>() + window * width;
    for (std::int64_t c = begin; c < end; ++c)
      if (taps[c] >= 0) sums[rows[taps[c]] * width + c] += static_cast<R>(g[c]);
  }
}

void pool_windows(const kernels::SlidingPool& io, std::int64_t begin, std::int64_t end) {
  visit_float(io.x.dtype(), [&]<class T>() { pool_typed<T>(io, begin, end); });
}

void vjp_windows(const kernels::SlidingPoolVjp& io, std::int64_t item, std::int64_t begin, std::int64_t end) {
  visit_float(io.g.dtype(), [&]<class T>() { vjp_typed<T>(io, item, begin, end); });
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace fovea
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace fovea {
namespace {

HWY_EXPORT(pool_windows);
HWY_EXPORT(vjp_windows);

}  // namespace

template <>
void kernels::sliding_pool<Device::cpu>(const Context& context, const SlidingPool& io) {
  const auto run = HWY_DYNAMIC_DISPATCH(pool_windows);
  for_rows(context, io.y.dim(0) * io.y.dim(1), io.y.dim(2) * io.index.dim(2),
           [&](std::int64_t begin, std::int64_t end) { run(io, begin, end); });
}

template <>
void kernels::sliding_pool_backward<Device::cpu>(const Context& context, const SlidingPoolVjp& io) {
  const ZoneTimer timer(context.zones(), Zone::elementwise);
  const auto run = HWY_DYNAMIC_DISPATCH(vjp_windows);
  constexpr std::int64_t kColumns = 256;  // channels of a task: the rows of one window stay in L1
  const std::int64_t width = io.g.dim(2), pieces = (width + kColumns - 1) / kColumns;
  parallel_for(context, io.g.dim(0) * pieces, [&](std::int64_t task) {
    const std::int64_t begin = task % pieces * kColumns;
    run(io, task / pieces, begin, std::min(width, begin + kColumns));
  });
}

}  // namespace fovea
#endif  // HWY_ONCE
