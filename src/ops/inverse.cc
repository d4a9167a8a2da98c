#include "ops/inverse.h"

#include <cmath>

#include "gemm/gemm.h"
#include "ops/work.h"

namespace fovea {
namespace {

// (..., p, p) as dense (count, p, p).
Tensor squares(const Context& context, const Tensor& x) {
  const std::int64_t p = x.dim(-1);
  return x.contiguous(context).reshape({p == 0 ? 0 : x.numel() / (p * p), p, p});
}

void check_squares(const Var& x) {
  if (x.value().rank() < 2 || x.dim(-1) != x.dim(-2) || (x.dtype() != DType::f32 && x.dtype() != DType::f64))
    fail(ErrorCode::shape, "inverse of " + std::string(name_of(x.dtype())) + " " + x.shape().text(), {},
         "square matrices in f32 or f64");
}

Tensor product(const Context& context, const Tensor& a, const Tensor& b) { return gemm::multiply(context, a, b); }
Tensor flip(const Tensor& x) { return x.transpose(-1, -2); }

// body(matrix, row, pointer offset of the row) for every row of (count, p, p).
template <class Body>
void each_row(const Context& context, const Tensor& x, Body&& body) {
  const std::int64_t p = x.dim(-1);
  for_rows(context, x.dim(0) * p, p, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t r = begin; r < end; ++r) body(r / p, r % p, r * p);
  });
}

// alpha I + beta x
Tensor affine(const Context& context, double alpha, double beta, const Tensor& x) {
  const Tensor y = Tensor::empty(context, x.shape(), x.dtype());
  visit_wide(x.dtype(), [&]<class R>() {
    each_row(context, x, [&](std::int64_t, std::int64_t row, std::int64_t at) {
      const R* from = x.data<R>() + at;
      R* to = y.data<R>() + at;
      for (std::int64_t c = 0; c < x.dim(-1); ++c) to[c] = static_cast<R>(beta) * from[c];
      to[row] += static_cast<R>(alpha);
    });
  });
  return y;
}

// y += factor x
void add_scaled(const Context& context, const Tensor& y, double factor, const Tensor& x) {
  visit_wide(x.dtype(), [&]<class R>() {
    each_row(context, y, [&](std::int64_t, std::int64_t, std::int64_t at) {
      for (std::int64_t c = at; c < at + y.dim(-1); ++c) y.data<R>()[c] += static_cast<R>(factor) * x.data<R>()[c];
    });
  });
}

// Which column of which matrix has the largest sum.
struct Largest {
  std::int64_t matrix, column;
  double sum;
};
// That of each matrix, or of all for each.
std::vector<Largest> largest_columns(const Tensor& a, bool of_all) {
  const std::int64_t p = a.dim(-1);
  std::vector<Largest> out(static_cast<std::size_t>(a.dim(0)), {0, 0, 0.0});
  visit_wide(a.dtype(), [&]<class R>() {
    for (std::int64_t m = 0; m < a.dim(0); ++m) {
      std::vector<double> sums(static_cast<std::size_t>(p), 0.0);
      for (std::int64_t i = 0; i < p * p; ++i) sums[static_cast<std::size_t>(i % p)] += a.data<R>()[m * p * p + i];
      for (std::int64_t c = 0; c < p; ++c)
        if (const double sum = sums[static_cast<std::size_t>(c)]; sum > out[static_cast<std::size_t>(m)].sum)
          out[static_cast<std::size_t>(m)] = {m, c, sum};
    }
  });
  const auto top = std::max_element(out.begin(), out.end(), [](auto& a, auto& b) { return a.sum < b.sum; });
  return of_all && !out.empty() ? std::vector<Largest>(out.size(), *top) : out;
}

// The matrices and every iterate: z[0] is the start, z.back() the result.
struct Iteration {
  Tensor a;
  std::vector<Tensor> z;
  bool one_start;
};

Tensor start(const Context& context, const Tensor& a, bool one_start) {
  const std::vector<Largest> largest = largest_columns(a, one_start);
  const Tensor z = flip(a).clone(context);
  visit_wide(a.dtype(), [&]<class R>() {
    each_row(context, z, [&](std::int64_t matrix, std::int64_t, std::int64_t at) {
      const R factor = static_cast<R>(1.0 / largest[static_cast<std::size_t>(matrix)].sum);
      for (std::int64_t c = at; c < at + z.dim(-1); ++c) z.data<R>()[c] *= factor;
    });
  });
  return z;
}

struct Step {
  Tensor x, p, r2, r3;  // A Z, 7 - X, 15 - X P, 13 - X R2
};
Step step_at(const Context& context, const Tensor& a, const Tensor& z) {
  Step s;
  s.x = product(context, a, z);
  s.p = affine(context, 7.0, -1.0, s.x);
  s.r2 = affine(context, 15.0, -1.0, product(context, s.x, s.p));
  s.r3 = affine(context, 13.0, -1.0, product(context, s.x, s.r2));
  return s;
}

Iteration iterate(const Context& context, const Tensor& a, const Iterated& options) {
  Iteration out{a, {start(context, a, options.one_start)}, options.one_start};
  for (std::int64_t i = 0; i < options.steps; ++i)
    out.z.push_back(affine(context, 0.0, 0.25, product(context, out.z.back(), step_at(context, a, out.z.back()).r3)));
  return out;
}

// The gradient of a start A^T / c, c being the largest column sum, added to da.
void pull_start(const Context& context, const Iteration& it, const Tensor& dz, const Tensor& da) {
  const std::int64_t p = da.dim(-1);
  const std::vector<Largest> largest = largest_columns(it.a, it.one_start);
  const Tensor back = flip(dz).contiguous(context);
  visit_wide(da.dtype(), [&]<class R>() {
    for (std::int64_t m = 0; m < da.dim(0); ++m) {
      const auto [source, column, sum] = largest[static_cast<std::size_t>(m)];
      const R *a = it.a.data<R>() + m * p * p, *g = back.data<R>() + m * p * p;
      R *own = da.data<R>() + m * p * p, *top = da.data<R>() + source * p * p + column;
      double inner = 0.0;
      for (std::int64_t i = 0; i < p * p; ++i) inner += static_cast<double>(g[i]) * static_cast<double>(a[i]);
      for (std::int64_t i = 0; i < p * p; ++i) own[i] += g[i] / static_cast<R>(sum);
      for (std::int64_t r = 0; r < p; ++r) top[r * p] -= static_cast<R>(inner / (sum * sum));
    }
  });
}

// The gradient of A from that of the result. With G = dZ_next: dZ = G R3^T / 4, dR3 = Z^T G / 4, and so down to A.
Tensor pull(const Context& context, const Iteration& it, Tensor dz) {
  const Tensor da = Tensor::zeros(context, it.a.shape(), it.a.dtype());
  for (std::size_t i = it.z.size() - 1; i-- > 0;) {
    const Tensor& z = it.z[i];
    const Step s = step_at(context, it.a, z);
    const Tensor g = affine(context, 0.0, 0.25, dz);
    const Tensor e3 = product(context, flip(z), g), e2 = product(context, flip(s.x), e3);  // dR3, -dR2
    const Tensor dx = affine(context, 0.0, -1.0, product(context, e3, flip(s.r2)));
    add_scaled(context, dx, 1.0, product(context, e2, flip(s.p)));
    add_scaled(context, dx, -1.0, product(context, flip(s.x), e2));
    dz = product(context, g, flip(s.r3));
    add_scaled(context, dz, 1.0, product(context, flip(it.a), dx));
    add_scaled(context, da, 1.0, product(context, dx, flip(z)));
  }
  pull_start(context, it, dz, da);
  return da;
}

void iterative_backward(Tape& tape, Node& node) {
  const Context& context = tape.context();
  const Iteration it{node.saved.front(),
                     {node.saved.begin() + 1, node.saved.end()},
                     std::any_cast<const Iterated&>(node.attributes).one_start};
  tape.accumulate(node.inputs[0], pull(context, it, squares(context, node.grad())).reshape(node.inputs[0]->shape));
}

constexpr Op kIterative{"iterative_inverse", iterative_backward};

// r_i x_ij r_j for r (count, p)
Tensor balanced(const Context& context, const Tensor& x, const Tensor& r) {
  const Tensor y = Tensor::empty(context, x.shape(), x.dtype());
  const std::int64_t p = x.dim(-1);
  visit_wide(x.dtype(), [&]<class R>() {
    each_row(context, x, [&](std::int64_t matrix, std::int64_t row, std::int64_t at) {
      const R* scale = r.data<R>() + matrix * p;
      for (std::int64_t c = 0; c < p; ++c) y.data<R>()[at + c] = scale[row] * x.data<R>()[at + c] * scale[c];
    });
  });
  return y;
}

// dr_i += sum over j of (g_ij x_ij + g_ji x_ji) r_j: the gradient of the scales of balanced(x, r).
void pull_scales(const Context& context, const Tensor& g, const Tensor& x, const Tensor& r, const Tensor& dr) {
  const std::int64_t p = x.dim(-1);
  visit_wide(x.dtype(), [&]<class R>() {
    parallel_for(context, x.dim(0), [&](std::int64_t m) {
      const R *gm = g.data<R>() + m * p * p, *xm = x.data<R>() + m * p * p, *rm = r.data<R>() + m * p;
      for (std::int64_t i = 0; i < p; ++i)
        for (std::int64_t j = 0; j < p; ++j) {
          const R share = gm[i * p + j] * xm[i * p + j];
          dr.data<R>()[m * p + i] += share * rm[j];
          dr.data<R>()[m * p + j] += share * rm[i];
        }
    });
  });
}

// 1 / sqrt(row sum), (count, p)
Tensor root_sums(const Context& context, const Tensor& x) {
  const std::int64_t p = x.dim(-1);
  const Tensor r = Tensor::empty(context, {x.dim(0), p}, x.dtype());
  visit_wide(x.dtype(), [&]<class R>() {
    each_row(context, x, [&](std::int64_t matrix, std::int64_t row, std::int64_t at) {
      R sum = 0;
      for (std::int64_t c = at; c < at + p; ++c) sum += x.data<R>()[c];
      r.data<R>()[matrix * p + row] = R(1) / std::sqrt(sum);
    });
  });
  return r;
}

// dx_ij += -r_i^3 dr_i / 2: the gradient of root_sums.
void pull_root_sums(const Context& context, const Tensor& r, const Tensor& dr, const Tensor& dx) {
  visit_wide(dx.dtype(), [&]<class R>() {
    each_row(context, dx, [&](std::int64_t matrix, std::int64_t row, std::int64_t at) {
      const R scale = r.data<R>()[matrix * dx.dim(-1) + row];
      const R share = R(-0.5) * scale * scale * scale * dr.data<R>()[matrix * dx.dim(-1) + row];
      for (std::int64_t c = at; c < at + dx.dim(-1); ++c) dx.data<R>()[c] += share;
    });
  });
}

// Saved: S = M + shift I, r, N = r S r, the iterates of N. X = r Z r.
void regularized_backward(Tape& tape, Node& node) {
  const Context& context = tape.context();
  const Tensor &s = node.saved[0], &r = node.saved[1];
  const Iteration it{node.saved[2],
                     {node.saved.begin() + 3, node.saved.end()},
                     std::any_cast<const Iterated&>(node.attributes).one_start};
  const Tensor g = squares(context, node.grad());
  const Tensor dr = Tensor::zeros(context, r.shape(), r.dtype());
  pull_scales(context, g, it.z.back(), r, dr);
  const Tensor dn = pull(context, it, balanced(context, g, r));
  pull_scales(context, dn, s, r, dr);
  const Tensor dm = balanced(context, dn, r);
  pull_root_sums(context, r, dr, dm);
  tape.accumulate(node.inputs[0], dm.reshape(node.inputs[0]->shape));
}

constexpr Op kRegularized{"regularized_inverse", regularized_backward};

}  // namespace

Var iterative_inverse(Tape& tape, const Var& a, const Iterated& options) {
  check_squares(a);
  const Iteration it = iterate(tape.context(), squares(tape.context(), a.value()), options);
  std::vector<Tensor> saved{it.a};
  saved.insert(saved.end(), it.z.begin(), it.z.end());
  return tape.record(kIterative, {a}, it.z.back().reshape(a.shape()), std::move(saved), options);
}

Var regularized_inverse(Tape& tape, const Var& m, const Regularized& options) {
  check_squares(m);
  const Context& context = tape.context();
  const Tensor s = affine(context, options.shift, 1.0, squares(context, m.value())), r = root_sums(context, s);
  const Iteration it = iterate(context, balanced(context, s, r), options.iterated);
  std::vector<Tensor> saved{s, r, it.a};
  saved.insert(saved.end(), it.z.begin(), it.z.end());
  return tape.record(kRegularized, {m}, balanced(context, it.z.back(), r).reshape(m.shape()), std::move(saved),
                     options.iterated);
}

}  // namespace fovea
