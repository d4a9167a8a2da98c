#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/diagonals_cpu.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep

#include "hwy/highway.h"
#include "ops/diagonals_cpu.h"
#include "ops/row_reduce-inl.h"
#include "ops/work.h"

HWY_BEFORE_NAMESPACE();
namespace fovea {
namespace HWY_NAMESPACE {
namespace {

// A row of (b, n) and its sequence.
struct Place {
  std::int64_t item, row;  // the row within its item
  Span span;
};

// Where things lie in the tensors of a product.
template <class T>
struct DiagonalWalk {
  explicit DiagonalWalk(const cpu::DiagonalTensors& io)
      : io(io),
        n(io.x.dim(1)),
        heads(io.x.dim(2)),
        group(heads / io.y.dim(2)),
        d(io.x.dim(3)),
        count(static_cast<std::int64_t>(io.offsets.size())) {}

  Place place(std::int64_t row) const { return {row / n, row % n, io.spans[static_cast<std::size_t>(row)]}; }
  // The row at an offset, forth (sign 1) or back (-1); -1 where there is none.
  std::int64_t meets(const Place& from, std::int64_t c, std::int64_t sign) const {
    const Span span = from.span;
    const std::int64_t to = from.row + sign * io.offsets[static_cast<std::size_t>(c)], length = span.end - span.begin;
    if (!io.ring) return span.holds(to) ? to : -1;
    if (length == 0) return -1;
    const std::int64_t turned = (to - span.begin) % length;
    return span.begin + (turned < 0 ? turned + length : turned);
  }
  T* at(const Tensor& t, std::int64_t item, std::int64_t row, std::int64_t head) const {
    return t.data<T>() + item * t.stride(0) + row * t.stride(1) + head * t.stride(2);
  }
  // (offsets) of one row and head.
  T* weights(std::int64_t item, std::int64_t row, std::int64_t head) const {
    return io.weights.data<T>() + ((item * n + row) * heads + head) * count;
  }

  const cpu::DiagonalTensors& io;
  std::int64_t n, heads, group, d, count;
};

template <class T, class R>
void add_weighted(R weight, const T* HWY_RESTRICT x, R* HWY_RESTRICT sum, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) sum[i] += weight * static_cast<R>(x[i]);
}

template <class T, class R>
void finish(const R* HWY_RESTRICT sum, R scale, T* HWY_RESTRICT to, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) to[i] = T(scale * sum[i]);
}

template <class T>
void dot_rows(const cpu::DiagonalTensors& io, double outside, std::int64_t begin, std::int64_t end) {
  using R = Wide<T>;
  const DiagonalWalk<T> walk(io);
  for (std::int64_t i = begin; i < end; ++i) {
    const Place here = walk.place(i);
    T* out = walk.weights(here.item, here.row, 0);
    for (std::int64_t c = 0; c < walk.count; ++c) {
      const std::int64_t to = walk.meets(here, c, 1);
      for (std::int64_t h = 0; h < walk.heads; ++h) {
        R score = static_cast<R>(outside);
        if (to >= 0)
          score = static_cast<R>(io.scale) *
                  row_dot(walk.at(io.x, here.item, here.row, h), walk.at(io.y, here.item, to, h / walk.group), walk.d);
        out[h * walk.count + c] = T(score);
      }
    }
  }
}

template <class T>
void mix_rows(const cpu::DiagonalTensors& io, std::int64_t begin, std::int64_t end) {
  using R = Wide<T>;
  const DiagonalWalk<T> walk(io);
  alignas(64) R sum[kChunk];
  for (std::int64_t i = begin; i < end; ++i)
    for (std::int64_t h = 0; h < walk.heads; ++h) {
      const Place here = walk.place(i);
      const T* weights = walk.weights(here.item, here.row, h);
      for_chunks(0, walk.d, [&](std::int64_t first, std::int64_t width) {
        std::fill_n(sum, width, R(0));
        for (std::int64_t c = 0; c < walk.count; ++c) {
          const std::int64_t to = walk.meets(here, c, 1);
          if (to < 0) continue;
          add_weighted(static_cast<R>(weights[c]), walk.at(io.y, here.item, to, h / walk.group) + first, sum, width);
        }
        finish(sum, static_cast<R>(io.scale), walk.at(io.x, here.item, here.row, h) + first, width);
      });
    }
}

template <class T>
void mix_back_rows(const cpu::DiagonalTensors& io, std::int64_t begin, std::int64_t end) {
  using R = Wide<T>;
  const DiagonalWalk<T> walk(io);
  alignas(64) R sum[kChunk];
  for (std::int64_t i = begin; i < end; ++i)
    for (std::int64_t shared = 0; shared < io.y.dim(2); ++shared) {
      const Place here = walk.place(i);
      for_chunks(0, walk.d, [&](std::int64_t first, std::int64_t width) {
        std::fill_n(sum, width, R(0));
        for (std::int64_t c = 0; c < walk.count; ++c) {
          const std::int64_t from = walk.meets(here, c, -1);
          if (from < 0) continue;
          for (std::int64_t h = shared * walk.group; h < (shared + 1) * walk.group; ++h)
            add_weighted(static_cast<R>(walk.weights(here.item, from, h)[c]), walk.at(io.x, here.item, from, h) + first,
                         sum, width);
        }
        finish(sum, static_cast<R>(io.scale), walk.at(io.y, here.item, here.row, shared) + first, width);
      });
    }
}

void dots(const cpu::DiagonalTensors& io, double outside, std::int64_t begin, std::int64_t end) {
  visit_float(io.x.dtype(), [&]<class T>() { dot_rows<T>(io, outside, begin, end); });
}
void mix(const cpu::DiagonalTensors& io, std::int64_t begin, std::int64_t end) {
  visit_float(io.x.dtype(), [&]<class T>() { mix_rows<T>(io, begin, end); });
}
void mix_back(const cpu::DiagonalTensors& io, std::int64_t begin, std::int64_t end) {
  visit_float(io.x.dtype(), [&]<class T>() { mix_back_rows<T>(io, begin, end); });
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace fovea
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace fovea {
namespace {

HWY_EXPORT(dots);
HWY_EXPORT(mix);
HWY_EXPORT(mix_back);

template <class Body>
void for_diagonals(const Context& context, const cpu::DiagonalTensors& io, Body&& body) {
  const auto count = static_cast<std::int64_t>(io.offsets.size());
  for_rows(context, io.x.dim(0) * io.x.dim(1), io.x.dim(2) * io.x.dim(3) * std::max<std::int64_t>(1, count), body);
}

}  // namespace

void cpu::diagonal_dots(const Context& context, const DiagonalTensors& io, double outside) {
  const auto run = HWY_DYNAMIC_DISPATCH(dots);
  for_diagonals(context, io, [&](std::int64_t begin, std::int64_t end) { run(io, outside, begin, end); });
}

void cpu::diagonal_mix(const Context& context, const DiagonalTensors& io) {
  const auto run = HWY_DYNAMIC_DISPATCH(mix);
  for_diagonals(context, io, [&](std::int64_t begin, std::int64_t end) { run(io, begin, end); });
}

void cpu::diagonal_mix_back(const Context& context, const DiagonalTensors& io) {
  const auto run = HWY_DYNAMIC_DISPATCH(mix_back);
  for_diagonals(context, io, [&](std::int64_t begin, std::int64_t end) { run(io, begin, end); });
}

}  // namespace fovea
#endif  // HWY_ONCE
