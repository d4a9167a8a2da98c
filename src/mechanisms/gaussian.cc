#include "mechanisms/gaussian.h"

#include <fmt/format.h>

#include "core/visit_device.h"
#include "mechanisms/gaussian_kernels.h"
#include "mechanisms/results.h"
#include "ops/work.h"

namespace fovea {
namespace {

struct Appended {
  Side side;
  RowList rows;
};

void append_backward(Tape& tape, Node& node) {
  const Context& context = tape.context();
  const auto& how = std::any_cast<const Appended&>(node.attributes);
  const Tensor& x = node.saved[0];
  const kernels::GaussianVjp io{x, node.grad().contiguous(context), gradient_like(tape, node.inputs[0], x, how.rows),
                                how.side, &how.rows};
  visit_device(context, io, [&]<Device D>() { kernels::gaussian_features_backward<D>(context, io); });
  tape.accumulate(node.inputs[0], io.dx);
}

constexpr Op kAppend{"gaussian_features", append_backward};

}  // namespace

Var gaussian_features(Tape& tape, const Var& x, Side side, const std::vector<Sequences::Rows>& rows) {
  const Context& context = tape.context();
  const kernels::GaussianColumns columns(x.dim(3), x.dtype(), side);
  const kernels::Gaussian io{dense_rows(context, x.value()),
                             output_like(context, x.shape().with(3, columns.width()), x.dtype(), rows), side, &rows};
  visit_device(context, io, [&]<Device D>() { kernels::gaussian_features<D>(context, io); });
  return tape.record(kAppend, {x}, io.y, {io.x}, Appended{side, rows});
}

double gaussian_scale(const Call& call) {
  const double scale = scale_of(call);
  if (!(scale >= 0.0))
    fail(ErrorCode::usage, fmt::format("a Gaussian kernel with the scale {}", scale), "scale", "a scale of at least 0");
  return scale;
}

Var gaussian_features(Tape& tape, const Var& x, Side side) {
  return gaussian_features(tape, x, side, Sequences{}.rows(x.dim(0), x.dim(1), "rows"));
}

}  // namespace fovea
