#include "ops/inverse.h"

#include "core/visit_device.h"
#include "gemm/gemm.h"
#include "ops/inverse_kernels.h"

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

// alpha I + beta x
Tensor affine(const Context& context, double alpha, double beta, const Tensor& x) {
  const kernels::ShiftedIdentity io{alpha, beta, x, Tensor::empty(context, x.shape(), x.dtype())};
  visit_device(context, io, [&]<Device D>() { kernels::shifted_identity<D>(context, io); });
  return io.y;
}

// y += factor x
void add_scaled(const Context& context, const Tensor& y, double factor, const Tensor& x) {
  const kernels::AddScaled io{factor, x, y};
  visit_device(context, io, [&]<Device D>() { kernels::add_scaled<D>(context, io); });
}

// The matrices and every iterate: z[0] is the start, z.back() the result.
struct Iteration {
  Tensor a;
  std::vector<Tensor> z;
  bool one_start;
};

// A^T / (largest column sum)
Tensor start(const Context& context, const Tensor& a, bool one_start) {
  const kernels::InverseStart io{one_start, a, flip(a).clone(context)};
  visit_device(context, io, [&]<Device D>() { kernels::inverse_start<D>(context, io); });
  return io.z;
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

// The gradient of A from that of the result. With G = dZ_next: dZ = G R3^T / 4, dR3 = Z^T G / 4, and so down to A.
Tensor vjp(const Context& context, const Iteration& it, Tensor dz) {
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
  const kernels::InverseStartVjp io{it.one_start, it.a, flip(dz).contiguous(context), da};
  visit_device(context, io, [&]<Device D>() { kernels::inverse_start_backward<D>(context, io); });
  return da;
}

void iterative_backward(Tape& tape, Node& node) {
  const Context& context = tape.context();
  const Iteration it{node.saved.front(),
                     {node.saved.begin() + 1, node.saved.end()},
                     std::any_cast<const Iterated&>(node.attributes).one_start};
  tape.accumulate(node.inputs[0], vjp(context, it, squares(context, node.grad())).reshape(node.inputs[0]->shape));
}

constexpr Op kIterative{"iterative_inverse", iterative_backward};

// r_i x_ij r_j for r (count, p)
Tensor balanced(const Context& context, const Tensor& x, const Tensor& r) {
  const kernels::Balance io{x, r, Tensor::empty(context, x.shape(), x.dtype())};
  visit_device(context, io, [&]<Device D>() { kernels::balance<D>(context, io); });
  return io.y;
}

// 1 / sqrt(row sum), (count, p)
Tensor root_sums(const Context& context, const Tensor& x) {
  const kernels::RootSums io{x, Tensor::empty(context, {x.dim(0), x.dim(-1)}, x.dtype())};
  visit_device(context, io, [&]<Device D>() { kernels::root_sums<D>(context, io); });
  return io.r;
}

void vjp_scales(const Context& context, const kernels::BalanceVjp& io) {
  visit_device(context, io, [&]<Device D>() { kernels::balance_backward<D>(context, io); });
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
  vjp_scales(context, {g, it.z.back(), r, dr});
  const Tensor dn = vjp(context, it, balanced(context, g, r));
  vjp_scales(context, {dn, s, r, dr});
  const Tensor dm = balanced(context, dn, r);
  const kernels::RootSumsVjp io{r, dr, dm};
  visit_device(context, io, [&]<Device D>() { kernels::root_sums_backward<D>(context, io); });
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
