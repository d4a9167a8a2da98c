#include "gemm/cpu/backend.h"
#include "gemm/gemm_kernels.h"

namespace fovea {
namespace gemm {
namespace {

// W^T of dX = dY W^T is worth a copy where it is small: 16384 x 64 x 64 takes 609 us against 719 on the view. From sums
// of 192 terms on views lose 2% or nothing, and the copy of a large matrix takes longer than the product of a few rows.
constexpr std::int64_t kRowsWorthACopy = 64, kLongestCopied = 128, kLargestCopied = std::int64_t{64} << 10;

bool is_worth_a_copy(const Tensor& transposed, std::int64_t rows) {
  return rows >= kRowsWorthACopy && transposed.dim(0) <= kLongestCopied && transposed.numel() <= kLargestCopied;
}

// One of the last two axes dense, the other at least as far apart as it is long.
bool is_matrix(const Tensor& t) {
  const std::int64_t rows = t.dim(-2), columns = t.dim(-1);
  return (t.stride(-1) == 1 && t.stride(-2) >= columns) || (t.stride(-2) == 1 && t.stride(-1) >= rows);
}

Tensor as_matrix(const Context& context, const Tensor& t) {
  return is_matrix(t) ? t : t.clone(context, Lifetime::scratch);
}

// (..., k) as (rows, k); a copy only when the leading axes do not fold.
Tensor fold(const Context& context, const Tensor& t) {
  if (t.rank() == 2) return t;
  return t.contiguous(context).reshape({t.numel() / t.dim(-1), t.dim(-1)});
}

// A sum over nothing.
void fill_empty(const Tensor& c, const Epilogue& epilogue) {
  if (epilogue.accumulate) return;
  c.fill(0.0);
  if (!epilogue.bias.defined()) return;
  const Tensor rows = c.reshape({-1, c.dim(-1)});
  for (std::int64_t i = 0; i < rows.dim(0); ++i) rows.select(0, i).copy_from(epilogue.bias);
  if (!epilogue.relu) return;
  visit_float(c.dtype(), [&]<class T>() {
    for (std::int64_t i = 0; i < c.numel(); ++i)
      if (!(c.data<T>()[i] > T(0.0f))) c.data<T>()[i] = T(0.0f);
  });
}

// oneDNN has no half-precision products on every CPU: through f32.
void multiply_f16(const Context& context, const kernels::Product& io) {
  const auto& [a, b, c, epilogue] = io;
  const Tensor wide_a = a.to(context, DType::f32), wide_b = b.to(context, DType::f32);
  if (c.dtype() == DType::f32) return multiply(context, wide_a, wide_b, c, epilogue);
  if (epilogue.accumulate) fail(ErrorCode::internal, "products accumulate in f32, not in f16");
  c.copy_from(multiply(context, wide_a, wide_b, epilogue));
}

}  // namespace
}  // namespace gemm

template <>
void kernels::multiply<Device::cpu>(const Context& context, const Product& io) {
  const auto& [a, b, c, epilogue] = io;
  if (a.dim(-1) == 0) return gemm::fill_empty(c, epilogue);
  if (a.dtype() == DType::f16) return gemm::multiply_f16(context, io);
  const bool shared = b.rank() == 2;
  const Tensor left = gemm::as_matrix(context, shared ? gemm::fold(context, a) : a);
  const Tensor out = shared ? c.reshape({left.dim(0), c.dim(-1)}) : c;
  Tensor right = gemm::as_matrix(context, b.to(context, a.dtype()));
  if (shared && gemm::is_transposed(right) && gemm::is_worth_a_copy(right, left.dim(0)))
    right = right.clone(context, Lifetime::scratch);
  if (a.dtype() == DType::f64)
    gemm::multiply_blocked(context, left, right, out, epilogue);
  else
    gemm::multiply_onednn(context, left, right, out, epilogue);
}

}  // namespace fovea
