#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/cpu/cumsum.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep

#include "hwy/highway.h"
#include "ops/cpu/column_sum.h"
#include "ops/cumsum_kernels.h"
#include "ops/work.h"

HWY_BEFORE_NAMESPACE();
namespace fovea {
namespace HWY_NAMESPACE {
namespace {

template <class T, class R>
void cumulate_row(const T* HWY_RESTRICT x, R* HWY_RESTRICT running, T* HWY_RESTRICT y, std::int64_t width) {
  for (std::int64_t i = 0; i < width; ++i) y[i] = T(running[i] += static_cast<R>(x[i]));
}

void cumulate_rows(const kernels::RunningSum& io, std::int64_t begin, std::int64_t end, void* running) {
  const std::int64_t width = io.x.dim(1);
  visit_float(io.x.dtype(), [&]<class T>() {
    auto* sums = static_cast<Wide<T>*>(running);
    for (std::int64_t i = begin; i < end; ++i) {
      const std::int64_t at = width * (io.back ? begin + end - 1 - i : i);
      cumulate_row(io.x.data<T>() + at, sums, io.y.data<T>() + at, width);
    }
  });
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace fovea
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace fovea {
namespace {

HWY_EXPORT(cumulate_rows);

// Turns the sums of stretches into what comes before each of them in its sequence (after it, for `back`).
void sums_before(const Tensor& sums, const Stretches& stretches, bool back) {
  visit_wide(sums.dtype(), [&]<class R>() {
    const std::int64_t width = sums.dim(1);
    std::vector<R> running(static_cast<std::size_t>(width));
    for (std::size_t s = 0; s + 1 < stretches.first.size(); ++s) {
      std::fill(running.begin(), running.end(), R(0));
      const std::int64_t begin = stretches.first[s], end = stretches.first[s + 1];
      for (std::int64_t i = begin; i < end; ++i) {
        R* row = sums.data<R>() + width * (back ? begin + end - 1 - i : i);
        for (std::int64_t c = 0; c < width; ++c) {
          R& sum = running[static_cast<std::size_t>(c)];
          std::swap(row[c], sum);  // `sum` now holds the stretch, `row` what was before it
          sum += row[c];
        }
      }
    }
  });
}

}  // namespace

template <>
void kernels::running_sums<Device::cpu>(const Context& context, const RunningSum& io) {
  const auto run = HWY_DYNAMIC_DISPATCH(cumulate_rows);
  const Tensor before = cpu::stretch_sums(context, io.x, *io.stretches);
  sums_before(before, *io.stretches, io.back);
  for_rows(context, before.dim(0), io.x.dim(1) * Stretches::kLongest, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const auto& stretch = io.stretches->list[static_cast<std::size_t>(i)];
      run(io, stretch.begin, stretch.end, before.select(0, i).raw());
    }
  });
}

}  // namespace fovea
#endif  // HWY_ONCE
