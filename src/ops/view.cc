#include <vector>

#include "autograd/add_into.h"
#include "fovea/ops.h"
#include "ops/work.h"

namespace fovea {
namespace {

struct Axes {
  int a, b;
};
struct Joint {
  int axis;
  std::vector<std::int64_t> ends;  // of each part in the result
};
struct Cut {
  int axis;
  std::int64_t begin, end;
};

void reshape_backward(Tape& tape, Node& node) {
  tape.accumulate(node.inputs[0], node.grad().contiguous(tape.context()).reshape(node.inputs[0]->shape));
}

void transpose_backward(Tape& tape, Node& node) {
  const auto& axes = std::any_cast<const Axes&>(node.attributes);
  tape.accumulate(node.inputs[0], node.grad().transpose(axes.a, axes.b));
}

// The gradient is zero outside the slice. Slices of one value share its buffer: each adds only what it covers.
void slice_backward(Tape& tape, Node& node) {
  const auto& cut = std::any_cast<const Cut&>(node.attributes);
  const Tape::Target target = tape.target(node.inputs[0]);
  const Tensor part = target.grad.slice(cut.axis, cut.begin, cut.end);
  if (!target.fresh) return add_into(tape.context(), part, node.grad());
  target.grad.slice(cut.axis, 0, cut.begin).fill(0.0);
  target.grad.slice(cut.axis, cut.end, target.grad.dim(cut.axis)).fill(0.0);
  part.copy_from(node.grad());
}

void concat_backward(Tape& tape, Node& node) {
  const auto& joint = std::any_cast<const Joint&>(node.attributes);
  std::int64_t begin = 0;
  for (std::size_t i = 0; i < node.inputs.size(); ++i) {
    if (node.wants(i)) tape.accumulate(node.inputs[i], node.grad().slice(joint.axis, begin, joint.ends[i]));
    begin = joint.ends[i];
  }
}

constexpr Op kReshape{"reshape", reshape_backward};
constexpr Op kTranspose{"transpose", transpose_backward};
constexpr Op kSlice{"slice", slice_backward};
constexpr Op kConcat{"concat", concat_backward};

int axis_of(const Tensor& t, int axis) {
  const int i = axis < 0 ? axis + t.rank() : axis;
  if (i < 0 || i >= t.rank())
    fail(ErrorCode::shape, "axis " + std::to_string(axis) + " of a tensor of shape " + t.shape().text());
  return i;
}

void check_part(const Var& first, const Var& part, int axis) {
  if (part.dtype() == first.dtype() && part.value().rank() == first.value().rank() &&
      part.shape().with(axis, 0) == first.shape().with(axis, 0))
    return;
  fail(ErrorCode::shape,
       "concat of " + first.shape().text() + " and " + part.shape().text() + " on axis " + std::to_string(axis), {},
       "equal dtypes, and equal sizes on the other axes");
}

}  // namespace

Var reshape(Tape& tape, const Var& x, std::initializer_list<std::int64_t> dims) {
  return tape.record(kReshape, {x}, x.value().contiguous(tape.context()).reshape(dims), {});
}

Var transpose(Tape& tape, const Var& x, int a, int b) {
  return tape.record(kTranspose, {x}, x.value().transpose(a, b), {}, Axes{a, b});
}

Var slice(Tape& tape, const Var& x, int axis, std::int64_t begin, std::int64_t end) {
  return tape.record(kSlice, {x}, x.value().slice(axis, begin, end), {}, Cut{axis_of(x.value(), axis), begin, end});
}

Var concat(Tape& tape, std::span<const Var> parts, int axis) {
  if (parts.empty()) fail(ErrorCode::usage, "concat of nothing");
  const Var& first = parts.front();
  const int i = axis_of(first.value(), axis);
  Joint joint{i, {}};
  std::int64_t total = 0;
  for (const Var& part : parts) {
    check_part(first, part, i);
    joint.ends.push_back(total += part.dim(i));
  }
  const Tensor out = Tensor::empty(tape.context(), first.shape().with(i, total), first.dtype());
  for (std::size_t p = 0; p < parts.size(); ++p)
    out.slice(i, joint.ends[p] - parts[p].dim(i), joint.ends[p]).copy_from(parts[p].value());
  return tape.record(kConcat, parts, {out}, {}, joint).front();
}

}  // namespace fovea
