#include "core/visit_device.h"
#include "fovea/ops.h"
#include "ops/column_sum.h"
#include "ops/dropout_parts.h"
#include "ops/elementwise_kernels.h"
#include "ops/work.h"

namespace fovea {
namespace {

// b has the shape of a, or of its last axes, or is one number.
void check_broadcast(const Var& a, const Var& b, const char* name) {
  const int lead = a.value().rank() - b.value().rank();
  bool fits = lead >= 0;
  for (int i = 0; fits && i < b.value().rank(); ++i) fits = a.dim(lead + i) == b.dim(i);
  if (wide_type(a.dtype()) != wide_type(b.dtype()) || !(fits || b.value().numel() == 1))
    fail(ErrorCode::shape,
         std::string(name) + " of " + std::string(name_of(a.dtype())) + a.shape().text() + " and " +
             std::string(name_of(b.dtype())) + b.shape().text(),
         {}, "the second has the shape of the first, or of its last axes, or is one number");
}

// In the type of a or its wide type.
Tensor right_operand(const Context& context, const Tensor& b, DType type_of_a) {
  return (b.dtype() == type_of_a ? b : b.to(context, wide_type(type_of_a))).contiguous(context);
}

Tensor combine(const Context& context, kernels::Binary op, const Tensor& a, const Tensor& b) {
  const Tensor left = a.contiguous(context), y = Tensor::empty(context, a.shape(), a.dtype());
  const kernels::BinaryTensors io{op, left, right_operand(context, b, a.dtype()), y};
  visit_device(context, io, [&]<Device D>() { kernels::binary<D>(context, io); });
  return y;
}

// The gradient of a repeated operand: the sum of g, or of g * factor, over its repetitions.
Tensor sum_repeats(const Context& context, const Tensor& g, const Tensor& factor, const Shape& shape) {
  const std::int64_t width = shape.numel(), rows = width == 0 ? 0 : g.numel() / width;
  const auto as_rows = [&](const Tensor& t) { return t.defined() ? t.contiguous(context).reshape({rows, width}) : t; };
  return column_sums(context, as_rows(g), as_rows(factor)).reshape(shape);
}

void add_backward(Tape& tape, Node& node) {
  const Tensor& g = node.grad();
  if (node.wants(1)) {
    const Shape& shape = node.inputs[1]->shape;
    tape.accumulate(node.inputs[1], shape == g.shape() ? g : sum_repeats(tape.context(), g, {}, shape));
  }
  tape.accumulate(node.inputs[0], g);
}

Tensor scaled(const Context& context, const Tensor& x, double factor) {
  const Tensor in = x.contiguous(context), y = Tensor::empty(context, x.shape(), x.dtype());
  const kernels::ScaleTensors io{factor, in, y};
  visit_device(context, io, [&]<Device D>() { kernels::scale<D>(context, io); });
  return y;
}

void sub_backward(Tape& tape, Node& node) {
  const Context& context = tape.context();
  const Tensor& g = node.grad();
  if (node.wants(1)) {
    const Shape& shape = node.inputs[1]->shape;
    const Tensor sums = shape == g.shape() ? g : sum_repeats(context, g, {}, shape);
    tape.accumulate(node.inputs[1], scaled(context, sums, -1.0));
  }
  tape.accumulate(node.inputs[0], g);
}

void mul_backward(Tape& tape, Node& node) {
  const Context& context = tape.context();
  const Tensor &g = node.grad(), &a = node.saved[0], &b = node.saved[1];
  if (node.wants(0)) tape.accumulate(node.inputs[0], combine(context, kernels::Binary::mul, g, b));
  if (!node.wants(1)) return;
  const Shape& shape = node.inputs[1]->shape;
  if (shape == g.shape())
    tape.accumulate(node.inputs[1], combine(context, kernels::Binary::mul, g, a));
  else
    tape.accumulate(node.inputs[1], sum_repeats(context, g, a, shape));
}

void scale_backward(Tape& tape, Node& node) {
  tape.accumulate(node.inputs[0], scaled(tape.context(), node.grad(), std::any_cast<double>(node.attributes)));
}

Tensor exp_scaled(const Context& context, const Tensor& x, const Tensor& log, double most) {
  const kernels::ExpScale io{most, log, x.contiguous(context), Tensor::empty(context, x.shape(), x.dtype())};
  visit_device(context, io, [&]<Device D>() { kernels::exp_scale<D>(context, io); });
  return io.y;
}

// saved: the logarithm, x. Above the limit the logarithm gets only the gradient that leads back.
void exp_scale_backward(Tape& tape, Node& node) {
  const Context& context = tape.context();
  const double most = std::any_cast<double>(node.attributes);
  const Tensor& log = node.saved[0];
  if (node.wants(0)) tape.accumulate(node.inputs[0], exp_scaled(context, node.grad(), log, most));
  if (!node.wants(1)) return;
  const kernels::ExpScaleVjp io{most, log, sum_repeats(context, node.grad(), node.saved[1], node.inputs[1]->shape)};
  visit_device(context, io, [&]<Device D>() { kernels::exp_scale_backward<D>(context, io); });
  tape.accumulate(node.inputs[1], io.d_log);
}

Tensor dropped(const Context& context, const Tensor& x, const Dropout& keep) {
  const Tensor in = x.contiguous(context), y = Tensor::empty(context, x.shape(), x.dtype());
  const kernels::DropoutTensors io{keep, in, y};
  visit_device(context, io, [&]<Device D>() { kernels::dropout<D>(context, io); });
  return y;
}

void dropout_backward(Tape& tape, Node& node) {
  tape.accumulate(node.inputs[0], dropped(tape.context(), node.grad(), std::any_cast<const Dropout&>(node.attributes)));
}

void cast_backward(Tape& tape, Node& node) {
  tape.accumulate(node.inputs[0], node.grad().to(tape.context(), node.inputs[0]->dtype));
}

constexpr Op kAdd{"add", add_backward};
constexpr Op kSub{"sub", sub_backward};
constexpr Op kMul{"mul", mul_backward};
constexpr Op kScale{"scale", scale_backward};
constexpr Op kExpScale{"exp_scale", exp_scale_backward};
struct PartsOfDropout {
  Dropout keep;
  std::vector<DropoutPart> parts;
};

Tensor dropped_parts(const Context& context, const Tensor& x, const PartsOfDropout& dropout) {
  const Tensor in = x.contiguous(context), y = Tensor::empty(context, x.shape(), x.dtype());
  const Tensor from = in.reshape({in.numel()}), to = y.reshape({y.numel()});
  for (const DropoutPart& part : dropout.parts) {
    const kernels::DropoutTensors io{
        dropout.keep, from.slice(0, part.begin, part.end), to.slice(0, part.begin, part.end), part.first, part.columns,
        part.stride};
    visit_device(context, io, [&]<Device D>() { kernels::dropout<D>(context, io); });
  }
  return y;
}

void dropout_parts_backward(Tape& tape, Node& node) {
  tape.accumulate(node.inputs[0],
                  dropped_parts(tape.context(), node.grad(), std::any_cast<const PartsOfDropout&>(node.attributes)));
}

constexpr Op kDropout{"dropout", dropout_backward};
constexpr Op kDropoutParts{"dropout_parts", dropout_parts_backward};
constexpr Op kCast{"cast", cast_backward};

}  // namespace

Var add(Tape& tape, const Var& a, const Var& b) {
  check_broadcast(a, b, "add");
  return tape.record(kAdd, {a, b}, combine(tape.context(), kernels::Binary::add, a.value(), b.value()), {});
}

Var sub(Tape& tape, const Var& a, const Var& b) {
  check_broadcast(a, b, "sub");
  return tape.record(kSub, {a, b}, combine(tape.context(), kernels::Binary::sub, a.value(), b.value()), {});
}

Var mul(Tape& tape, const Var& a, const Var& b) {
  check_broadcast(a, b, "mul");
  return tape.record(kMul, {a, b}, combine(tape.context(), kernels::Binary::mul, a.value(), b.value()),
                     {b.needs_grad() ? a.value() : Tensor(), a.needs_grad() ? b.value() : Tensor()});
}

Var scale(Tape& tape, const Var& x, double factor) {
  return tape.record(kScale, {x}, scaled(tape.context(), x.value(), factor), {}, factor);
}

Var exp_scale(Tape& tape, const Var& x, const Var& log_factor, double most) {
  if (log_factor.value().numel() != 1)
    fail(ErrorCode::shape, "exp_scale by a factor of shape " + log_factor.shape().text(), "log_factor", "one number");
  return tape.record(kExpScale, {x, log_factor}, exp_scaled(tape.context(), x.value(), log_factor.value(), most),
                     {log_factor.value(), log_factor.needs_grad() ? x.value() : Tensor()}, most);
}

Var dropout(Tape& tape, const Var& x, double p) {
  const Dropout keep = next_dropout(tape, p);
  if (!keep.active()) return x;
  return tape.record(kDropout, {x}, dropped(tape.context(), x.value(), keep), {}, keep);
}

Var dropout_parts(Tape& tape, const Var& x, double p, std::vector<DropoutPart> parts) {
  const PartsOfDropout dropout{next_dropout(tape, p), std::move(parts)};
  if (!dropout.keep.active()) return x;
  return tape.record(kDropoutParts, {x}, dropped_parts(tape.context(), x.value(), dropout), {}, dropout);
}

Var cast(Tape& tape, const Var& x, DType dtype) {
  if (!is_float(dtype)) fail(ErrorCode::usage, "cast to " + std::string(name_of(dtype)) + ", which has no gradient");
  if (x.dtype() == dtype) return x;
  return tape.record(kCast, {x}, x.value().to(tape.context(), dtype), {});
}

}  // namespace fovea
