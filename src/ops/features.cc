#include "ops/features.h"

#include "core/visit_device.h"
#include "ops/features_kernels.h"
#include "ops/sequence.h"
#include "ops/work.h"

namespace fovea {
namespace {

enum Saved : std::size_t { kX, kDirections, kGain, kWeight, kTops, kPeaks, kY };

// Exponentials leave the range of f16; waves have signs and nearly cancel in a sum.
DType feature_type(FeatureMap map, DType dtype) {
  return dtype == DType::f16 || map == FeatureMap::waves ? wide_type(dtype) : dtype;
}

void backward(Tape& tape, Node& node) {
  const Context& context = tape.context();
  const auto& options = std::any_cast<const FeatureOptions&>(node.attributes);
  const std::vector<Tensor>& saved = node.saved;
  const Tensor &x = saved[kX], &directions = saved[kDirections];
  const auto sums = [&](std::size_t input, const Shape& shape) {
    return node.wants(input) ? Tensor::zeros(context, shape, wide_type(x.dtype())) : Tensor();
  };
  const kernels::FeatureBackward io{&options,
                                    x,
                                    directions,
                                    saved[kGain],
                                    saved[kWeight],
                                    saved[kTops],
                                    saved[kPeaks],
                                    saved[kY],
                                    node.grad().contiguous(context),
                                    tape.room(node.inputs[0], x.shape(), x.dtype()),
                                    sums(1, {directions.dim(0), x.dim(3)}),
                                    sums(2, {x.dim(0), x.dim(1), x.dim(2)})};
  if (!covers(options.rows, x.shape())) io.dx.fill(0.0);
  visit_device(context, io, [&]<Device D>() { kernels::features_backward<D>(context, io); });
  tape.accumulate(node.inputs[0], io.dx);
  if (node.wants(1)) tape.accumulate(node.inputs[1], io.d_gain);
  if (node.wants(2)) tape.accumulate(node.inputs[2], io.d_weight);
}

constexpr Op kFeatures{"features", backward};

void check(const Var& x, const Tensor& directions, const FeatureOptions& options) {
  if (x.value().rank() != 4) fail(ErrorCode::shape, "features of shape " + x.shape().text(), {}, "(b, n, heads, d)");
  if (directions.rank() != 3 || directions.dim(2) != x.dim(3) || directions.dim(0) == 0 || directions.dim(1) == 0 ||
      x.dim(2) % directions.dim(0) != 0 || directions.dtype() != wide_type(x.dtype()))
    fail(ErrorCode::shape, "directions " + directions.shape().text() + " for x of shape " + x.shape().text(),
         "directions", "(groups, directions, d), f32 (f64)");
  if (options.gain.defined() && options.gain.shape() != Shape{directions.dim(0), x.dim(3)})
    fail(ErrorCode::shape, "gain of shape " + options.gain.shape().text(), "gain", "(groups, d)");
  if (options.weight.defined() &&
      (options.weight.shape() != Shape{x.dim(0), x.dim(1), x.dim(2)} || options.weight.dtype() != wide_type(x.dtype())))
    fail(ErrorCode::shape, "weight of shape " + options.weight.shape().text(), "weight", "(b, n, heads), f32 (f64)");
}

}  // namespace

Var features(Tape& tape, const Var& x, const Tensor& directions, const FeatureOptions& options) {
  check(x, directions, options);
  const Context& context = tape.context();
  kernels::FeatureForward io;
  io.options = &options;
  io.x = dense_rows(context, x.value());
  io.directions = directions.contiguous(context);
  if (options.gain.defined()) io.gain = options.gain.value().to(context, wide_type(x.dtype())).contiguous(context);
  if (options.weight.defined()) io.weight = options.weight.value().contiguous(context);
  const Shape rows{x.dim(0), x.dim(1), x.dim(2)};
  if (options.map == FeatureMap::exponential && options.stabilizer == Stabilizer::sequence)
    io.tops = Tensor::empty(context, rows, wide_type(x.dtype()));
  if (options.stabilizer == Stabilizer::given) io.shifts = options.shifts;
  if (options.pull_shift) io.peaks = Tensor::empty(context, rows, DType::i32);
  const std::int64_t outputs = directions.dim(1) * (options.map == FeatureMap::waves ? 2 : 1);
  io.y = Tensor::empty(context, x.shape().with(3, outputs), feature_type(options.map, x.dtype()));
  if (!covers(options.rows, x.shape())) io.y.fill(0.0);
  visit_device(context, io, [&]<Device D>() { kernels::features<D>(context, io); });
  FeatureOptions attributes = options;
  attributes.gain = attributes.weight = {};
  attributes.shifts = {};
  return tape.record(kFeatures, {x, options.gain, options.weight}, io.y,
                     {io.x, io.directions, io.gain, io.weight, io.tops, io.peaks, io.y}, std::move(attributes));
}

Rescue find_rescue(const Context& context, const Tensor& x, const Tensor& directions, const FeatureOptions& options,
                   bool in_order) {
  check(x, directions, options);
  const DType wide = wide_type(x.dtype());
  const Shape rows{x.dim(0), x.dim(1), x.dim(2)};
  const kernels::FeatureRescue io{&options,
                                  dense_rows(context, x),
                                  directions.contiguous(context),
                                  Tensor::empty(context, rows, wide),
                                  in_order ? Tensor::empty(context, rows, wide) : Tensor(),
                                  Tensor::empty(context, {std::ssize(options.rows), x.dim(2)}, wide),
                                  Tensor::empty(context, {}, DType::u8),
                                  context.device() != Device::cpu};
  visit_device(context, io, [&]<Device D>() { kernels::find_rescue<D>(context, io); });
  return io.always || io.needed.item() != 0.0 ? Rescue{io.shifts, io.log_decay, io.state_scale} : Rescue{};
}

}  // namespace fovea
