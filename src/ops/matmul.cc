#include "fovea/ops.h"
#include "gemm/gemm.h"
#include "ops/work.h"

namespace fovea {
namespace {

// A shared b (k, n) collects from all of a: fold the leading axes of both sides of its product.
Tensor gradient_of_b(const Context& context, const Tensor& a, const Tensor& g, const Tensor& b) {
  const bool shared = b.rank() == 2 && a.rank() > 2;
  const auto fold = [&](const Tensor& t) { return t.contiguous(context).reshape({t.numel() / t.dim(-1), t.dim(-1)}); };
  const Tensor left = shared ? fold(a) : a, right = shared ? fold(g) : g;
  const Tensor db = Tensor::empty(context, b.shape(), wide_type(b.dtype()));
  gemm::multiply(context, left.transpose(-1, -2), right, db);
  return db;
}

void matmul_backward(Tape& tape, Node& node) {
  const Context& context = tape.context();
  const Tensor &a = node.saved[0], &b = node.saved[1], g = node.grad().contiguous(context);
  if (node.wants(0)) tape.accumulate(node.inputs[0], gemm::multiply(context, g, b.transpose(-1, -2)));
  if (!node.wants(1)) return;
  if (g.numel() == 0)
    tape.accumulate(node.inputs[1], Tensor::zeros(context, b.shape(), b.dtype()));
  else
    tape.accumulate(node.inputs[1], gradient_of_b(context, a, g, b));
}

constexpr Op kMatmul{"matmul", matmul_backward};

}  // namespace

Var matmul(Tape& tape, const Var& a, const Var& b) {
  if (wide_type(a.dtype()) != wide_type(b.dtype()))
    fail(ErrorCode::usage, "matmul of " + std::string(name_of(a.dtype())) + " and " + std::string(name_of(b.dtype())));
  return tape.record(kMatmul, {a, b}, gemm::multiply(tape.context(), a.value(), b.value()), {a.value(), b.value()});
}

}  // namespace fovea
