#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/cpu/activation.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep

#include "hwy/highway.h"
#include "ops/activation_kernels.h"
#include "ops/activation_policy.h"
#include "ops/cpu/chunk-inl.h"
#include "ops/cpu/column_sum.h"
#include "ops/cpu/dropout-inl.h"
#include "ops/work.h"

HWY_BEFORE_NAMESPACE();
namespace fovea {
namespace HWY_NAMESPACE {
namespace {

// Flattened: otherwise the compiler may call a large policy instead of inlining it, and the loop stays scalar (GELU:
// 30x).
template <class P, class R>
HWY_FLATTEN void apply(const R* HWY_RESTRICT x, R* HWY_RESTRICT y, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) y[i] = P::apply(x[i]);
}

template <class P, class R>
HWY_FLATTEN void vjp(const R* HWY_RESTRICT g, const R* HWY_RESTRICT saved, R* HWY_RESTRICT dx, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) dx[i] = g[i] * P::slope(saved[i]);
}

// kept: dropout's factors, or ones.
template <class R>
struct GateApply {
  const R *a, *b, *kept;
  R* y;
};

template <class P, class R>
HWY_FLATTEN void apply_gate(const GateApply<R>& io, std::int64_t count) {
  const R *HWY_RESTRICT a = io.a, *HWY_RESTRICT b = io.b, *HWY_RESTRICT kept = io.kept;
  R* HWY_RESTRICT y = io.y;
  for (std::int64_t i = 0; i < count; ++i) y[i] = P::apply(a[i]) * b[i] * kept[i];
}

template <class R>
struct GateVjp {
  const R *g, *a, *b, *kept;
  R *da, *db;
};

template <class P, class R>
HWY_FLATTEN void vjp_gate(const GateVjp<R>& io, std::int64_t count) {
  const R *HWY_RESTRICT g = io.g, *HWY_RESTRICT a = io.a, *HWY_RESTRICT b = io.b, *HWY_RESTRICT kept = io.kept;
  R *HWY_RESTRICT da = io.da, *HWY_RESTRICT db = io.db;
  for (std::int64_t i = 0; i < count; ++i) {
    const R act = P::apply(a[i]), upstream = g[i] * kept[i];
    da[i] = upstream * b[i] * P::slope(P::kFromOutput ? act : a[i]);
    db[i] = upstream * act;
  }
}

void apply_range(const kernels::Apply& io, std::int64_t begin, std::int64_t end) {
  visit_float(io.x.dtype(), [&]<class T>() {
    const auto kernel = visit_activation(io.activation, []<class P>() { return &apply<P, Wide<T>>; });
    const T* x = io.x.data<T>();
    T* y = io.y.data<T>();
    ChunkIn<T> in;
    ChunkOut<T> out;
    for_chunks(begin, end, [&](std::int64_t i, std::int64_t count) {
      kernel(in.read(x + i, count), out.place(y + i), count);
      out.write(y + i, count);
    });
  });
}

void vjp_range(const kernels::ActivateVjp& io, std::int64_t begin, std::int64_t end) {
  visit_float(io.g.dtype(), [&]<class T>() {
    const auto kernel = visit_activation(io.activation, []<class P>() { return &vjp<P, Wide<T>>; });
    const T *from = io.g.data<T>(), *kept = io.saved.data<T>();
    T* to = io.dx.data<T>();
    ChunkIn<T> g, saved;
    ChunkOut<T> dx;
    for_chunks(begin, end, [&](std::int64_t i, std::int64_t count) {
      kernel(g.read(from + i, count), saved.read(kept + i, count), dx.place(to + i), count);
      dx.write(to + i, count);
    });
  });
}

void glu_rows(const kernels::Glu& io, std::int64_t begin, std::int64_t end) {
  visit_float(io.x.dtype(), [&]<class T>() {
    const auto kernel = visit_activation(io.activation, []<class P>() { return &apply_gate<P, Wide<T>>; });
    const std::int64_t width = io.y.dim(-1);
    RowFactors<Wide<T>> factors(io.keep, width);
    ChunkIn<T> a, b;
    ChunkOut<T> out;
    for (std::int64_t row = begin; row < end; ++row) {
      const Wide<T>* kept = factors.row(row, end);
      const T* left = io.x.data<T>() + row * 2 * width;
      T* to = io.y.data<T>() + row * width;
      for_chunks(0, width, [&](std::int64_t i, std::int64_t count) {
        kernel({a.read(left + i, count), b.read(left + width + i, count), kept + i, out.place(to + i)}, count);
        out.write(to + i, count);
      });
    }
  });
}

void glu_backward_rows(const kernels::GluVjp& io, std::int64_t begin, std::int64_t end) {
  visit_float(io.g.dtype(), [&]<class T>() {
    const auto kernel = visit_activation(io.activation, []<class P>() { return &vjp_gate<P, Wide<T>>; });
    const std::int64_t width = io.g.dim(-1);
    RowFactors<Wide<T>> factors(io.keep, width);
    ChunkIn<T> g, a, b;
    ChunkOut<T> da, db;
    for (std::int64_t row = begin; row < end; ++row) {
      const Wide<T>* kept = factors.row(row, end);
      const T *from = io.g.data<T>() + row * width, *left = io.x.data<T>() + row * 2 * width;
      T* to = io.dx.data<T>() + row * 2 * width;
      for_chunks(0, width, [&](std::int64_t i, std::int64_t count) {
        kernel({g.read(from + i, count), a.read(left + i, count), b.read(left + width + i, count), kept + i,
                da.place(to + i), db.place(to + width + i)},
               count);
        da.write(to + i, count);
        db.write(to + width + i, count);
      });
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

HWY_EXPORT(apply_range);
HWY_EXPORT(vjp_range);
HWY_EXPORT(glu_rows);
HWY_EXPORT(glu_backward_rows);

}  // namespace

template <>
void kernels::activate<Device::cpu>(const Context& context, const Apply& io) {
  const auto range = HWY_DYNAMIC_DISPATCH(apply_range);
  for_elements(context, io.x.numel(), [&](std::int64_t begin, std::int64_t end) { range(io, begin, end); });
}

template <>
void kernels::activate_backward<Device::cpu>(const Context& context, const ActivateVjp& io) {
  const auto range = HWY_DYNAMIC_DISPATCH(vjp_range);
  for_elements(context, io.g.numel(), [&](std::int64_t begin, std::int64_t end) { range(io, begin, end); });
}

// A piece is added up while it is still in L1.
template <>
Tensor kernels::activate_backward_and_sum<Device::cpu>(const Context& context, const ActivateVjp& io) {
  constexpr std::int64_t kPieceElements = 2048;
  const auto range = HWY_DYNAMIC_DISPATCH(vjp_range);
  const std::int64_t width = io.g.dim(1),
                     step = std::max<std::int64_t>(1, kPieceElements / std::max<std::int64_t>(1, width));
  const RowBlocks blocks(io.g.dim(0), width);
  const Tensor partial = Tensor::zeros(context, {blocks.count, width}, wide_type(io.g.dtype()), Lifetime::scratch);
  for_blocks(context, blocks, [&](std::int64_t block, std::int64_t begin, std::int64_t end) {
    void* sums = partial.select(0, block).raw();
    for (std::int64_t row = begin; row < end; row += step) {
      const std::int64_t stop = std::min(end, row + step);
      range(io, row * width, stop * width);
      cpu::add_columns({io.dx, {}}, row, stop, sums);
    }
  });
  return cpu::fold_blocks(context, partial);
}

template <>
void kernels::glu<Device::cpu>(const Context& context, const Glu& io) {
  const auto rows = HWY_DYNAMIC_DISPATCH(glu_rows);
  for_rows(context, io.y.dim(0), io.y.dim(1), [&](std::int64_t begin, std::int64_t end) { rows(io, begin, end); });
}

template <>
void kernels::glu_backward<Device::cpu>(const Context& context, const GluVjp& io) {
  const auto rows = HWY_DYNAMIC_DISPATCH(glu_backward_rows);
  for_rows(context, io.g.dim(0), io.g.dim(1), [&](std::int64_t begin, std::int64_t end) { rows(io, begin, end); });
}

}  // namespace fovea
#endif  // HWY_ONCE
