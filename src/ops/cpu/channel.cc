#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/cpu/channel.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep

#include "hwy/highway.h"
#include "ops/cpu/channel.h"
#include "ops/work.h"

HWY_BEFORE_NAMESPACE();
namespace fovea {
namespace HWY_NAMESPACE {
namespace {

template <class T, class R>
void add_squares_row(const T* HWY_RESTRICT x, const R* HWY_RESTRICT shift, R* HWY_RESTRICT sums, std::int64_t width) {
  for (std::int64_t i = 0; i < width; ++i) {
    const R centred = static_cast<R>(x[i]) - shift[i];
    sums[i] += centred * centred;
  }
}

template <class T, class R>
struct UpstreamRow {
  const T *g, *x;
  const R* shift;
  R *plain, *crossed;
};

template <class T, class R>
void add_vjp_row(const UpstreamRow<T, R>& row, std::int64_t width) {
  const T *HWY_RESTRICT g = row.g, *HWY_RESTRICT x = row.x;
  const R* HWY_RESTRICT shift = row.shift;
  R *HWY_RESTRICT plain = row.plain, *HWY_RESTRICT crossed = row.crossed;
  for (std::int64_t i = 0; i < width; ++i) {
    plain[i] += static_cast<R>(g[i]);
    crossed[i] += static_cast<R>(g[i]) * (static_cast<R>(x[i]) - shift[i]);
  }
}

template <class T, class R>
void mix_row(const T* HWY_RESTRICT x, const R* coefficients, T* HWY_RESTRICT out, std::int64_t width) {
  const R *HWY_RESTRICT shift = coefficients + cpu::kShift * width,
                        *HWY_RESTRICT from_x = coefficients + cpu::kFromX * width,
                        *HWY_RESTRICT offset = coefficients + cpu::kOffset * width;
  for (std::int64_t i = 0; i < width; ++i) out[i] = T(from_x[i] * (static_cast<R>(x[i]) - shift[i]) + offset[i]);
}

template <class T, class R>
struct MixRow {
  const T *x, *g;
  T* out;
  const R* coefficients;
};

template <class T, class R>
void mix_both_row(const MixRow<T, R>& row, std::int64_t width) {
  const T *HWY_RESTRICT x = row.x, *HWY_RESTRICT g = row.g;
  T* HWY_RESTRICT out = row.out;
  const R *HWY_RESTRICT shift = row.coefficients + cpu::kShift * width,
                        *HWY_RESTRICT from_x = row.coefficients + cpu::kFromX * width,
                        *HWY_RESTRICT offset = row.coefficients + cpu::kOffset * width,
                        *HWY_RESTRICT from_g = row.coefficients + cpu::kFromG * width;
#pragma omp simd  // seven pointers: the compiler would not check them
  for (std::int64_t i = 0; i < width; ++i)
    out[i] = T(from_g[i] * static_cast<R>(g[i]) + (from_x[i] * (static_cast<R>(x[i]) - shift[i]) + offset[i]));
}

void add_squares_rows(const Tensor& x, const void* shift, cpu::RowRange rows, void* sums) {
  const std::int64_t width = x.dim(1);
  visit_float(x.dtype(), [&]<class T>() {
    using R = Wide<T>;
    for (std::int64_t row = rows.begin; row < rows.end; ++row)
      add_squares_row(x.data<T>() + row * width, static_cast<const R*>(shift), static_cast<R*>(sums), width);
  });
}

void add_vjp_rows(const cpu::Upstream& io, const void* shift, cpu::RowRange rows, void* sums) {
  const std::int64_t width = io.x.dim(1);
  visit_float(io.x.dtype(), [&]<class T>() {
    using R = Wide<T>;
    R* to = static_cast<R*>(sums);
    for (std::int64_t row = rows.begin; row < rows.end; ++row)
      add_vjp_row<T, R>(
          {io.g.data<T>() + row * width, io.x.data<T>() + row * width, static_cast<const R*>(shift), to, to + width},
          width);
  });
}

void mix_rows(const cpu::Mix& io, const void* coefficients, cpu::RowRange rows) {
  const std::int64_t width = io.x.dim(1);
  visit_float(io.x.dtype(), [&]<class T>() {
    using R = Wide<T>;
    const R* numbers = static_cast<const R*>(coefficients);
    for (std::int64_t at = rows.begin * width; at < rows.end * width; at += width) {
      if (io.g.defined())
        mix_both_row<T, R>({io.x.data<T>() + at, io.g.data<T>() + at, io.out.data<T>() + at, numbers}, width);
      else
        mix_row(io.x.data<T>() + at, numbers, io.out.data<T>() + at, width);
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

HWY_EXPORT(add_squares_rows);
HWY_EXPORT(add_vjp_rows);
HWY_EXPORT(mix_rows);

}  // namespace

void cpu::add_squares(const Tensor& x, const void* shift, RowRange rows, void* sums) {
  HWY_DYNAMIC_DISPATCH(add_squares_rows)(x, shift, rows, sums);
}

void cpu::add_vjp(const Upstream& io, const void* shift, RowRange rows, void* sums) {
  HWY_DYNAMIC_DISPATCH(add_vjp_rows)(io, shift, rows, sums);
}

void cpu::mix_channels(const Mix& io, const void* coefficients, RowRange rows) {
  HWY_DYNAMIC_DISPATCH(mix_rows)(io, coefficients, rows);
}

}  // namespace fovea
#endif  // HWY_ONCE
