#include "mechanisms/merge.h"

#include <cmath>

#include "core/parallel.h"
#include "fovea/attention.h"

namespace fovea {
namespace {

constexpr std::int64_t kGrain = 256;  // rows per task

// exp(a - b), and 0 for an empty part (a = -inf), also when the whole row is empty.
template <class R>
R share(R part, R whole) {
  return part == -INFINITY ? R(0) : std::exp(part - whole);
}

// Dense inputs of a merge: rows are (b, n, heads), width is d_v.
struct Sides {
  Tensor o_a, lse_a, o_b, lse_b;
};

template <class T>
void merge_rows(const Context& context, const Sides& in, const Tensor& o, const Tensor& lse) {
  using R = Wide<T>;
  const std::int64_t width = o.dim(-1);
  parallel_ranges(context, lse.numel(), kGrain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t r = begin; r < end; ++r) {
      const R a = in.lse_a.data<R>()[r], b = in.lse_b.data<R>()[r], top = std::max(a, b);
      const R whole = top == -INFINITY ? top : top + std::log(std::exp(a - top) + std::exp(b - top));
      lse.data<R>()[r] = whole;
      const R share_a = share(a, whole), share_b = share(b, whole);
      for (std::int64_t c = r * width; c < (r + 1) * width; ++c)
        o.data<T>()[c] = static_cast<T>(share_a * static_cast<R>(in.o_a.data<T>()[c]) +
                                        share_b * static_cast<R>(in.o_b.data<T>()[c]));
    }
  });
}

// Gradients of one side: d_part = share * d_o; d_lse_part = share * (d_o . (part - o) + d_lse).
struct Side {
  Tensor part, lse_part;      // inputs
  Tensor d_part, d_lse_part;  // results
};
struct Merged {
  Tensor o, lse, d_o, d_lse;  // d_o and d_lse may be undefined
};

template <class T>
void pull_rows(const Context& context, const Merged& m, const Side& side) {
  using R = Wide<T>;
  const std::int64_t width = m.o.dim(-1);
  parallel_ranges(context, m.lse.numel(), kGrain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t r = begin; r < end; ++r) {
      const R weight = share(side.lse_part.data<R>()[r], m.lse.data<R>()[r]);
      R d_lse = m.d_lse.defined() ? m.d_lse.data<R>()[r] : R(0);
      for (std::int64_t c = r * width; c < (r + 1) * width; ++c) {
        const R g = m.d_o.defined() ? static_cast<R>(m.d_o.data<T>()[c]) : R(0);
        side.d_part.data<T>()[c] = static_cast<T>(weight * g);
        d_lse += g * (static_cast<R>(side.part.data<T>()[c]) - static_cast<R>(m.o.data<T>()[c]));
      }
      side.d_lse_part.data<R>()[r] = weight * d_lse;
    }
  });
}

void merge_backward(Tape& tape, Node& node) {
  const Context& context = tape.context();
  const auto dense = [&](const Tensor& t) { return t.defined() ? t.contiguous(context) : t; };
  const Merged merged{node.saved[4], node.saved[5], dense(node.grad(0)), dense(node.grad(1))};
  for (std::size_t i = 0; i < 4; i += 2) {
    const Tensor &part = node.saved[i], &lse = node.saved[i + 1];
    const Side side{part, lse, Tensor::empty(context, part.shape(), part.dtype()),
                    Tensor::empty(context, lse.shape(), lse.dtype())};
    visit_float(part.dtype(), [&]<class T>() { pull_rows<T>(context, merged, side); });
    tape.accumulate(node.inputs[i], side.d_part);
    tape.accumulate(node.inputs[i + 1], side.d_lse_part);
  }
}

// o = share_a o + share_b part
template <class T, class R>
void join_row(T* __restrict o, const T* __restrict part, R share_a, R share_b, std::int64_t width) {
  for (std::int64_t c = 0; c < width; ++c)
    o[c] = static_cast<T>(share_a * static_cast<R>(o[c]) + share_b * static_cast<R>(part[c]));
}

template <class T>
void join_rows(const Context& context, const Joined& to, const Joined& part) {
  using R = Wide<T>;
  const std::int64_t n = to.o.dim(1), heads = to.o.dim(2), width = to.o.dim(3);
  parallel_ranges(context, to.o.dim(0) * n, kGrain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t r = begin; r < end; ++r)
      for (std::int64_t h = 0; h < heads; ++h) {
        const auto at = [&](const Tensor& x) { return r / n * x.stride(0) + r % n * x.stride(1) + h * x.stride(2); };
        R& lse = to.lse.data<R>()[at(to.lse)];
        const R a = lse, b = part.lse.data<R>()[at(part.lse)], top = std::max(a, b);
        if (b == -INFINITY) continue;  // nothing there: o may hold anything
        const R whole = top + std::log(std::exp(a - top) + std::exp(b - top));
        join_row(to.o.data<T>() + at(to.o), part.o.data<T>() + at(part.o), share(a, whole), share(b, whole), width);
        lse = whole;
      }
  });
}

constexpr Op kMerge{"merge", merge_backward};

}  // namespace

void merge_into(const Context& context, const Joined& to, const Joined& part) {
  visit_float(to.o.dtype(), [&]<class T>() { join_rows<T>(context, to, part); });
}

Partial merge(Tape& tape, const Partial& a, const Partial& b) {
  if (a.output.shape() != b.output.shape() || a.lse.shape() != b.lse.shape() || a.output.dtype() != b.output.dtype())
    fail(ErrorCode::shape, "merge of parts with shapes " + a.output.shape().text() + " and " + b.output.shape().text());
  const Context& context = tape.context();
  const Sides in{a.output.value().contiguous(context), a.lse.value().contiguous(context),
                 b.output.value().contiguous(context), b.lse.value().contiguous(context)};
  const Tensor o = Tensor::empty(context, a.output.shape(), a.output.dtype());
  const Tensor lse = Tensor::empty(context, a.lse.shape(), a.lse.dtype());
  visit_float(o.dtype(), [&]<class T>() { merge_rows<T>(context, in, o, lse); });
  const std::vector<Var> inputs{a.output, a.lse, b.output, b.lse};
  const std::vector<Var> results = tape.record(kMerge, inputs, {o, lse}, {in.o_a, in.lse_a, in.o_b, in.lse_b, o, lse});
  return {results[0], results[1]};
}

}  // namespace fovea
