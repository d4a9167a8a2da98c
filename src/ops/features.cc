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
  if (options.pull_shift) io.peaks = Tensor::empty(context, rows, DType::i32);
  const std::int64_t outputs = directions.dim(1) * (options.map == FeatureMap::waves ? 2 : 1);
  io.y = Tensor::empty(context, x.shape().with(3, outputs), feature_type(options.map, x.dtype()));
  if (!covers(options.rows, x.shape())) io.y.fill(0.0);
  visit_device(context, io, [&]<Device D>() { kernels::features<D>(context, io); });
  FeatureOptions attributes = options;
  attributes.gain = attributes.weight = {};
  attributes.levels = {};
  return tape.record(kFeatures, {x, options.gain, options.weight}, io.y,
                     {io.x, io.directions, io.gain, io.weight, io.tops, io.peaks, io.y}, std::move(attributes));
}

std::vector<std::int64_t> rows_above(const Context& context, const Tensor& x, const Tensor& directions,
                                     const FeatureOptions& options, bool in_order) {
  check(x, directions, options);
  std::vector<std::int64_t> above(options.rows.size(), 0);
  if (context.device() != Device::cpu) return above;
  const kernels::FadingRows io{&options, dense_rows(context, x), directions.contiguous(context),
                               Tensor::empty(context, {std::ssize(options.rows)}, DType::i64)};
  visit_device(context, io, [&]<Device D>() { kernels::find_fading<D>(context, io); });
  above = io.first.to_vector<std::int64_t>();
  for (std::size_t s = 0; !in_order && s < above.size(); ++s)
    if (above[s] < options.rows[s].count) above[s] = 0;
  return above;
}

Leveled find_levels(const Context& context, const Tensor& x, const Tensor& directions, const FeatureOptions& options,
                    const Tensor& state, bool in_order) {
  check(x, directions, options);
  const DType wide = wide_type(x.dtype());
  const std::int64_t sequences = std::ssize(options.rows), all = x.dim(0) * x.dim(1), r = directions.dim(1);
  const Shape sums{sequences, x.dim(2), r};
  kernels::LevelTensors io;
  io.options = &options;
  io.x = dense_rows(context, x);
  io.directions = directions.contiguous(context);
  if (state.defined()) io.state = state.contiguous(context);
  io.levels.in_order = in_order;
  io.levels.rows = Tensor::empty(context, sums.with(0, sequences + (in_order ? all : 0)), wide);
  for (std::int64_t s = 0; s < sequences; ++s) {
    const auto& [batch, begin, count] = options.rows[static_cast<std::size_t>(s)];
    io.levels.spans.push_back({batch * x.dim(1) + begin, 0, s + (in_order ? all : 0)});
  }
  if (in_order) io.log_decay = Tensor::zeros(context, x.shape().with(3, r), wide);
  io.state_in = Tensor::empty(context, sums, wide);
  io.state_out = Tensor::empty(context, sums, wide);
  visit_device(context, io, [&]<Device D>() { kernels::find_levels<D>(context, io); });
  return {io.levels, io.log_decay, io.state_in, io.state_out};
}

FeatureLevels seen_from(const FeatureLevels& levels, const std::vector<Sequences::Rows>& queries,
                        const std::vector<Sequences::Rows>& keys) {
  FeatureLevels seen = levels;
  for (std::size_t s = 0; s < queries.size(); ++s) seen.spans[s].offset = keys[s].count - queries[s].count;
  return seen;
}

}  // namespace fovea
