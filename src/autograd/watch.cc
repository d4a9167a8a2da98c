#include "autograd/watch.h"

#include <algorithm>
#include <cmath>

namespace fovea {
namespace {

bool is_floating(DType dtype) { return dtype != DType::i32 && dtype != DType::i64 && dtype != DType::u8; }

bool all_finite(const Tensor& tensor) {
  if (!tensor.defined() || !is_floating(tensor.dtype())) return true;
  const std::vector<double> values = tensor.to_vector<double>();
  return std::all_of(values.begin(), values.end(), [](double v) { return std::isfinite(v) || v < 0.0; });
}

[[noreturn]] void refuse(const char* what, const char* op, const Shape& shape) {
  fail(ErrorCode::diverged, std::string("not finite: ") + what + " of " + op + ", shape " + shape.text());
}

}  // namespace

void FiniteWatch::on_values(const Tape&, const Op& op, std::span<const Tensor> values) {
  for (const Tensor& value : values)
    if (!all_finite(value)) refuse("the result", op.name, value.shape());
}

void FiniteWatch::on_gradients(const Tape&, const Node& node) {
  for (const auto& slot : node.inputs)
    if (slot != nullptr && !all_finite(slot->grad)) refuse("a gradient", node.op->name, slot->shape);
}

}  // namespace fovea
