#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/diagonals_cpu.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep

#include <vector>

#include "hwy/highway.h"
#include "ops/diagonals_cpu.h"
#include "ops/row_reduce-inl.h"
#include "ops/work.h"

HWY_BEFORE_NAMESPACE();
namespace fovea {
namespace HWY_NAMESPACE {
namespace {

// Where things lie in the tensors of a product.
template <class T>
struct DiagonalWalk {
  explicit DiagonalWalk(const cpu::DiagonalTensors& io)
      : io(io),
        n(io.x.dim(1)),
        heads(io.x.dim(2)),
        group(heads / io.y.dim(2)),
        count(static_cast<std::int64_t>(io.offsets.size())) {}

  // For every offset the row of the item that lies there, forth (sign 1) or back (-1); -1 where there is none.
  void meet(std::int64_t item, std::int64_t row, std::int64_t sign, std::vector<std::int64_t>& rows) const {
    const Span span = io.spans[static_cast<std::size_t>(item * n + row)];
    const std::int64_t length = span.end - span.begin;
    rows.clear();
    for (const std::int64_t offset : io.offsets) {
      std::int64_t to = row + sign * offset;
      if (io.ring && length > 0) {
        const std::int64_t turned = (to - span.begin) % length;
        to = span.begin + (turned < 0 ? turned + length : turned);
      }
      rows.push_back(span.holds(to) ? to : -1);
    }
  }
  T* at(const Tensor& t, std::int64_t item, std::int64_t row, std::int64_t head) const {
    return t.data<T>() + item * t.stride(0) + row * t.stride(1) + head * t.stride(2);
  }
  // (offsets) of one row and head.
  T* weights(std::int64_t item, std::int64_t row, std::int64_t head) const {
    return io.weights.data<T>() + ((item * n + row) * heads + head) * count;
  }

  const cpu::DiagonalTensors& io;
  std::int64_t n, heads, group, count;
};

// A row and its weight in a sum.
template <class T>
struct Term {
  Wide<T> weight;
  const T* row;
};

// to (d) = scale * the sum of the terms: four vectors of columns at a time, kept in registers over all terms.
template <class T>
void sum_terms(std::span<const Term<T>> terms, Wide<T> scale, T* HWY_RESTRICT to, std::int64_t d) {
  using R = Wide<T>;
  const hn::ScalableTag<R> tag;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(tag));
  HWY_ALIGN R sums[4 * hn::MaxLanes(tag)];
  std::int64_t c = 0;
  for (; c + 4 * lanes <= d; c += 4 * lanes) {
    auto s0 = hn::Zero(tag), s1 = s0, s2 = s0, s3 = s0;
    for (const Term<T>& term : terms) {
      const auto weight = hn::Set(tag, term.weight);
      s0 = hn::MulAdd(weight, load_wide(tag, term.row + c), s0);
      s1 = hn::MulAdd(weight, load_wide(tag, term.row + c + lanes), s1);
      s2 = hn::MulAdd(weight, load_wide(tag, term.row + c + 2 * lanes), s2);
      s3 = hn::MulAdd(weight, load_wide(tag, term.row + c + 3 * lanes), s3);
    }
    hn::Store(s0, tag, sums);
    hn::Store(s1, tag, sums + lanes);
    hn::Store(s2, tag, sums + 2 * lanes);
    hn::Store(s3, tag, sums + 3 * lanes);
    for (std::int64_t i = 0; i < 4 * lanes; ++i) to[c + i] = T(scale * sums[i]);
  }
  for (; c < d; ++c) {
    R sum = 0;
    for (const Term<T>& term : terms) sum += term.weight * static_cast<R>(term.row[c]);
    to[c] = T(scale * sum);
  }
}

template <class T>
void dots_typed(const cpu::DiagonalTensors& io, const cpu::DiagonalRows& rows, double outside) {
  using R = Wide<T>;
  const DiagonalWalk<T> walk(io);
  const std::int64_t d = io.x.dim(3);
  std::vector<std::int64_t> met;
  for (std::int64_t i = rows.begin; i < rows.end; ++i) {
    walk.meet(rows.item, i, 1, met);
    for (std::int64_t h = 0; h < walk.heads; ++h) {
      const T* x = walk.at(io.x, rows.item, i, h);
      T* out = walk.weights(rows.item, i, h);
      for (const std::int64_t to : met) {
        R score = static_cast<R>(outside);
        if (to >= 0) score = static_cast<R>(io.scale) * row_dot(x, walk.at(io.y, rows.item, to, h / walk.group), d);
        *out++ = T(score);
      }
    }
  }
}

template <class T>
void mix_typed(const cpu::DiagonalTensors& io, const cpu::DiagonalRows& rows) {
  using R = Wide<T>;
  const DiagonalWalk<T> walk(io);
  std::vector<std::int64_t> met;
  std::vector<Term<T>> terms;
  for (std::int64_t i = rows.begin; i < rows.end; ++i) {
    walk.meet(rows.item, i, 1, met);
    for (std::int64_t h = 0; h < walk.heads; ++h) {
      const T* weights = walk.weights(rows.item, i, h);
      terms.clear();
      for (std::size_t c = 0; c < met.size(); ++c)
        if (met[c] >= 0)
          terms.push_back({static_cast<R>(weights[c]), walk.at(io.y, rows.item, met[c], h / walk.group)});
      sum_terms<T>(terms, static_cast<R>(io.scale), walk.at(io.x, rows.item, i, h), io.x.dim(3));
    }
  }
}

template <class T>
void mix_back_typed(const cpu::DiagonalTensors& io, const cpu::DiagonalRows& rows) {
  using R = Wide<T>;
  const DiagonalWalk<T> walk(io);
  std::vector<std::int64_t> met;
  std::vector<Term<T>> terms;
  for (std::int64_t i = rows.begin; i < rows.end; ++i) {
    walk.meet(rows.item, i, -1, met);
    for (std::int64_t shared = 0; shared < io.y.dim(2); ++shared) {
      terms.clear();
      for (std::size_t c = 0; c < met.size(); ++c)
        for (std::int64_t h = shared * walk.group; met[c] >= 0 && h < (shared + 1) * walk.group; ++h)
          terms.push_back({static_cast<R>(walk.weights(rows.item, met[c], h)[c]), walk.at(io.x, rows.item, met[c], h)});
      sum_terms<T>(terms, static_cast<R>(io.scale), walk.at(io.y, rows.item, i, shared), io.x.dim(3));
    }
  }
}

void dots(const cpu::DiagonalTensors& io, const cpu::DiagonalRows& rows, double outside) {
  visit_float(io.x.dtype(), [&]<class T>() { dots_typed<T>(io, rows, outside); });
}
void mix(const cpu::DiagonalTensors& io, const cpu::DiagonalRows& rows) {
  visit_float(io.x.dtype(), [&]<class T>() { mix_typed<T>(io, rows); });
}
void mix_back(const cpu::DiagonalTensors& io, const cpu::DiagonalRows& rows) {
  visit_float(io.x.dtype(), [&]<class T>() { mix_back_typed<T>(io, rows); });
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

// body(rows) on blocks of rows, all heads of them: a row is dense in memory, its heads alone are not. Head by
// head the scores take twice as long (n 16384, 4 heads of 64).
template <class Body>
void for_diagonals(const Context& context, const cpu::DiagonalTensors& io, Body&& body) {
  constexpr std::int64_t kRows = 16;
  const ZoneTimer timer(context.zones(), Zone::elementwise);
  const std::int64_t n = io.x.dim(1), blocks = (n + kRows - 1) / kRows;
  parallel_for(context, io.x.dim(0) * blocks, [&](std::int64_t task) {
    const std::int64_t begin = task % blocks * kRows;
    body({task / blocks, begin, std::min(n, begin + kRows)});
  });
}

}  // namespace

void cpu::diagonal_dots(const Context& context, const DiagonalTensors& io, double outside) {
  const auto run = HWY_DYNAMIC_DISPATCH(dots);
  for_diagonals(context, io, [&](const DiagonalRows& rows) { run(io, rows, outside); });
}

void cpu::diagonal_mix(const Context& context, const DiagonalTensors& io) {
  const auto run = HWY_DYNAMIC_DISPATCH(mix);
  for_diagonals(context, io, [&](const DiagonalRows& rows) { run(io, rows); });
}

void cpu::diagonal_mix_back(const Context& context, const DiagonalTensors& io) {
  const auto run = HWY_DYNAMIC_DISPATCH(mix_back);
  for_diagonals(context, io, [&](const DiagonalRows& rows) { run(io, rows); });
}

}  // namespace fovea
#endif  // HWY_ONCE
