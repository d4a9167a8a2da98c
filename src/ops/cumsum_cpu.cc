#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/cumsum_cpu.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep

#include "hwy/highway.h"
#include "ops/cumsum_cpu.h"

HWY_BEFORE_NAMESPACE();
namespace fovea {
namespace HWY_NAMESPACE {
namespace {

template <class T, class R>
void cumulate_row(const T* HWY_RESTRICT x, R* HWY_RESTRICT running, T* HWY_RESTRICT y, std::int64_t width) {
  for (std::int64_t i = 0; i < width; ++i) y[i] = T(running[i] += static_cast<R>(x[i]));
}

void cumulate_rows(const cpu::RunningSum& io, std::int64_t begin, std::int64_t end, void* running) {
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

}  // namespace

void cpu::cumulate(const RunningSum& io, std::int64_t begin, std::int64_t end, void* running) {
  HWY_DYNAMIC_DISPATCH(cumulate_rows)(io, begin, end, running);
}

}  // namespace fovea
#endif  // HWY_ONCE
