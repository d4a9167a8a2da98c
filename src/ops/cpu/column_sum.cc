#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/cpu/column_sum.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep

#include "hwy/highway.h"
#include "ops/cpu/column_sum.h"
#include "ops/work.h"

HWY_BEFORE_NAMESPACE();
namespace fovea {
namespace HWY_NAMESPACE {
namespace {

// Four rows at a time, so that the sums are loaded and stored once for four.
template <class T, class R>
void add_four(const T* HWY_RESTRICT x, std::int64_t width, R* HWY_RESTRICT sums) {
  for (std::int64_t j = 0; j < width; ++j)
    sums[j] += (static_cast<R>(x[j]) + static_cast<R>(x[width + j])) +
               (static_cast<R>(x[2 * width + j]) + static_cast<R>(x[3 * width + j]));
}

template <class T, class R>
void add_one(const T* HWY_RESTRICT x, std::int64_t width, R* HWY_RESTRICT sums) {
  for (std::int64_t j = 0; j < width; ++j) sums[j] += static_cast<R>(x[j]);
}

template <class T, class U, class R>
void add_product(const T* HWY_RESTRICT x, const U* HWY_RESTRICT y, std::int64_t width, R* HWY_RESTRICT sums) {
  for (std::int64_t j = 0; j < width; ++j) sums[j] += static_cast<R>(x[j]) * static_cast<R>(y[j]);
}

template <class T>
void add_rows(const T* x, std::int64_t width, std::int64_t rows, Wide<T>* sums) {
  std::int64_t row = 0;
  for (; row + 4 <= rows; row += 4) add_four(x + row * width, width, sums);
  for (; row < rows; ++row) add_one(x + row * width, width, sums);
}

void add_columns_range(const kernels::ColumnSum& io, std::int64_t begin, std::int64_t end, void* sums) {
  const std::int64_t width = io.x.dim(-1);
  visit_float(io.x.dtype(), [&]<class T>() {
    auto* to = static_cast<Wide<T>*>(sums);
    const T* x = io.x.data<T>();
    if (!io.y.defined()) return add_rows(x + begin * width, width, end - begin, to);
    for (std::int64_t row = begin; row < end; ++row)
      add_product(x + row * width, io.y.data<T>() + row * width, width, to);
  });
}

void add_listed_rows(const Tensor& x, std::span<const std::int64_t> rows, void* sums) {
  const std::int64_t width = x.dim(1);
  visit_float(x.dtype(), [&]<class T>() {
    const T* from = x.data<T>();
    auto* to = static_cast<Wide<T>*>(sums);
    for (const std::int64_t row : rows) add_one(from + row * width, width, to);
  });
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace fovea
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace fovea {
namespace {

HWY_EXPORT(add_columns_range);
HWY_EXPORT(add_listed_rows);

constexpr std::int64_t kNarrow = 64;  // below this a row is less than a few vectors

Tensor block_sums(const Context& context, const kernels::ColumnSum& io) {
  const std::int64_t width = io.x.dim(-1);
  const RowBlocks blocks(io.x.dim(0), width);
  const Tensor partial = Tensor::zeros(context, {blocks.count, width}, wide_type(io.x.dtype()), Lifetime::scratch);
  for_blocks(context, blocks, [&](std::int64_t block, std::int64_t begin, std::int64_t end) {
    cpu::add_columns(io, begin, end, partial.select(0, block).raw());
  });
  return cpu::fold_blocks(context, partial);
}

}  // namespace

void cpu::add_columns(const kernels::ColumnSum& io, std::int64_t begin, std::int64_t end, void* sums) {
  HWY_DYNAMIC_DISPATCH(add_columns_range)(io, begin, end, sums);
}

void cpu::add_listed(const Tensor& x, std::span<const std::int64_t> rows, void* sums) {
  HWY_DYNAMIC_DISPATCH(add_listed_rows)(x, rows, sums);
}

Tensor cpu::fold_blocks(const Context& context, const Tensor& partial) {
  const Tensor sums = Tensor::zeros(context, {partial.dim(1)}, partial.dtype());
  if (sums.numel() > 0) add_columns({partial, {}}, 0, partial.dim(0), sums.raw());
  return sums;
}

// Narrow rows are joined to wide ones first: (rows, 3) is summed as (rows / 22, 66), and the 66 sums are then folded.
template <>
Tensor kernels::column_sums<Device::cpu>(const Context& context, const ColumnSum& io) {
  const std::int64_t rows = io.x.dim(0), width = io.x.dim(1);
  const std::int64_t joined = width == 0 ? 1 : (kNarrow + width - 1) / width;
  if (joined == 1 || rows < 2 * joined) return block_sums(context, io);
  const std::int64_t whole = rows / joined;
  const auto join = [&](const Tensor& t) {
    return t.defined() ? t.slice(0, 0, whole * joined).reshape({whole, joined * width}) : t;
  };
  const Tensor sums = cpu::fold_blocks(context, block_sums(context, {join(io.x), join(io.y)}).reshape({joined, width}));
  cpu::add_columns(io, whole * joined, rows, sums.raw());
  return sums;
}

Tensor cpu::stretch_sums(const Context& context, const Tensor& x, const Stretches& stretches) {
  const auto count = static_cast<std::int64_t>(stretches.list.size());
  const Tensor sums = Tensor::zeros(context, {count, x.dim(1)}, wide_type(x.dtype()), Lifetime::scratch);
  const kernels::ColumnSum columns{x, {}};
  for_rows(context, count, x.dim(1) * Stretches::kLongest, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const auto& stretch = stretches.list[static_cast<std::size_t>(i)];
      add_columns(columns, stretch.begin, stretch.end, sums.select(0, i).raw());
    }
  });
  return sums;
}

}  // namespace fovea
#endif  // HWY_ONCE
