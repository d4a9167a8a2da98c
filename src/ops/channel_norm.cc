#include "ops/channel_norm_kernels.h"

#include <numeric>

#include "core/visit_device.h"
#include "fovea/ops.h"
#include "ops/affine.h"
#include "ops/sequence.h"

// Norms whose mean and variance belong to channels and not to rows. They differ only in what is measured together: all
// rows (batch), those of a sequence (instance), and with them a group of channels (group).
namespace fovea {
namespace {

using kernels::ChannelSets;

ChannelSets make_sets(const RowList& sequences, std::int64_t n, std::int64_t group, bool joined) {
  ChannelSets sets{Stretches(sequences, n), {}, std::vector<double>(joined ? 1 : sequences.size(), 0.0), group};
  for (std::size_t s = 0; s < sequences.size(); ++s) {
    const std::size_t set = joined ? 0 : s;
    sets.rows[set] += static_cast<double>(sequences[s].count);
    const std::int64_t stretches = sets.stretches.first[s + 1] - sets.stretches.first[s];
    sets.of_stretch.insert(sets.of_stretch.end(), static_cast<std::size_t>(stretches), static_cast<std::int64_t>(set));
  }
  return sets;
}

// Of each set and channel, f64.
struct Statistics {
  Tensor mean, variance;
};

Tensor table(const Context& context, const ChannelSets& sets, std::int64_t width) {
  return Tensor::empty(context, {std::ssize(sets.rows), width}, DType::f64);
}

Statistics measure(const Context& context, const Tensor& x, const ChannelSets& sets) {
  const kernels::MeasureChannels io{&sets, x, table(context, sets, x.dim(1)), table(context, sets, x.dim(1))};
  visit_device(context, io, [&]<Device D>() { kernels::measure_channels<D>(context, io); });
  return {io.mean, io.variance};
}

Tensor factors(const Context& context, const Tensor& variance, double eps) {
  const kernels::ChannelFactors io{eps, variance, Tensor::empty(context, variance.shape(), DType::f64)};
  visit_device(context, io, [&]<Device D>() { kernels::channel_factors<D>(context, io); });
  return io.factor;
}

// Memory for a result of x's shape, 0 where no set has rows.
Tensor room(const Context& context, const Tensor& x, const ChannelSets& sets) {
  const double rows = std::accumulate(sets.rows.begin(), sets.rows.end(), 0.0);
  return rows == static_cast<double>(x.dim(0)) ? Tensor::empty(context, x.shape(), x.dtype())
                                               : Tensor::zeros(context, x.shape(), x.dtype());
}

// What backward needs, besides tensors.
struct Normed {
  ChannelSets sets;
  bool fixed;  // statistics that do not depend on x
};

// saved: x (rows, width), the gain, mean and factor.
void backward(Tape& tape, Node& node) {
  const Context& context = tape.context();
  const auto& [sets, fixed] = std::any_cast<const Normed&>(node.attributes);
  const Tensor& x = node.saved[0];
  const auto sums = [&](std::size_t input) {
    return node.wants(input) ? Tensor::empty(context, {x.dim(1)}, wide_type(x.dtype())) : Tensor();
  };
  const kernels::NormChannelsVjp io{.sets = &sets,
                                    .fixed = fixed,
                                    .x = x,
                                    .g = node.grad().contiguous(context).reshape(x.shape()),
                                    .mean = node.saved[2],
                                    .factor = node.saved[3],
                                    .gain = node.saved[1],
                                    .dx = node.wants(0) ? room(context, x, sets) : Tensor(),
                                    .d_gain = sums(1),
                                    .d_bias = sums(2)};
  visit_device(context, io, [&]<Device D>() { kernels::norm_channels_backward<D>(context, io); });
  if (node.wants(1)) tape.accumulate(node.inputs[1], io.d_gain);
  if (node.wants(2)) tape.accumulate(node.inputs[2], io.d_bias);
  if (node.wants(0)) tape.accumulate(node.inputs[0], io.dx.reshape(node.inputs[0]->shape));
}

constexpr Op kChannelNorm{"channel_norm", backward};

struct Affine {
  const Var &gain, &bias;
};

Tensor as_rows(const Context& context, const Var& x) {
  return x.value().contiguous(context).reshape({x.dim(0) * x.dim(1), x.dim(2)});
}

struct Measured {
  Tensor rows;  // of x
  Tensor mean, factor;
};

// y = (x - mean) factor gain + bias; 0 in padding.
Var apply(Tape& tape, const Var& x, const Affine& affine, const Measured& by, Normed normed) {
  const Context& context = tape.context();
  const Tensor& in = by.rows;
  const kernels::NormChannels io{&normed.sets,
                                 in,
                                 by.mean,
                                 by.factor,
                                 wide_parameter(context, affine.gain, in, 1.0),
                                 wide_parameter(context, affine.bias, in, 0.0),
                                 room(context, in, normed.sets)};
  visit_device(context, io, [&]<Device D>() { kernels::norm_channels<D>(context, io); });
  return tape.record(kChannelNorm, {x, affine.gain, affine.bias}, io.y.reshape(x.shape()),
                     {in, io.gain, by.mean, by.factor}, std::move(normed));
}

// Measures x and normalises by that.
Var measure_and_apply(Tape& tape, const Var& x, const Affine& affine, ChannelSets sets, double eps) {
  const Tensor in = as_rows(tape.context(), x);
  const Statistics s = measure(tape.context(), in, sets);
  return apply(tape, x, affine, {in, s.mean, factors(tape.context(), s.variance, eps)}, {std::move(sets), false});
}

RowList check_rows(const Var& x, const Sequences& rows, const Affine& affine, double eps) {
  if (x.value().rank() != 3 || x.dim(2) == 0)
    fail(ErrorCode::shape, "norm over the channels of shape " + x.shape().text(), {}, "(batch, n, width)");
  check_affine(x.dim(2), affine.gain, affine.bias);
  if (!(eps >= 0.0)) fail(ErrorCode::usage, "eps must not be negative", "norm.eps");
  return rows.rows(x.dim(0), x.dim(1), "rows");
}

void check_running(const Tensor& running, const Var& x, const char* where) {
  if (running.defined() && running.shape() == Shape{x.dim(2)} && running.dtype() == wide_type(x.dtype()) &&
      running.is_contiguous())
    return;
  fail(ErrorCode::shape,
       "running values must be dense " + std::string(name_of(wide_type(x.dtype()))) + Shape{x.dim(2)}.text(), where);
}

void move_towards(const Context& context, const kernels::MoveTowards& io) {
  visit_device(context, io, [&]<Device D>() { kernels::move_towards<D>(context, io); });
}

}  // namespace

Var batch_norm(Tape& tape, const Var& x, const Sequences& rows, const BatchNorm& norm) {
  const Context& context = tape.context();
  const Affine affine{norm.gain, norm.bias};
  const RowList sequences = check_rows(x, rows, affine, norm.eps);
  check_running(norm.running_mean, x, "norm.running_mean");
  check_running(norm.running_var, x, "norm.running_var");
  ChannelSets sets = make_sets(sequences, x.dim(1), 1, true);
  const Tensor in = as_rows(context, x);
  if (!tape.training()) {
    const Tensor factor = factors(context, norm.running_var, norm.eps);
    return apply(tape, x, affine, {in, norm.running_mean.clone(context), factor}, {std::move(sets), true});
  }
  const Statistics s = measure(context, in, sets);
  if (const double count = sets.rows[0]; count > 0.0 && !tape.replaying()) {
    move_towards(context, {norm.momentum, 1.0, norm.running_mean, s.mean});
    const double unbiased = count / std::max(1.0, count - 1.0);
    move_towards(context, {norm.momentum, unbiased, norm.running_var, s.variance});
  }
  return apply(tape, x, affine, {in, s.mean, factors(context, s.variance, norm.eps)}, {std::move(sets), false});
}

Var instance_norm(Tape& tape, const Var& x, const Sequences& rows, const InstanceNorm& norm) {
  const Affine affine{norm.gain, norm.bias};
  const RowList sequences = check_rows(x, rows, affine, norm.eps);
  return measure_and_apply(tape, x, affine, make_sets(sequences, x.dim(1), 1, false), norm.eps);
}

Var group_norm(Tape& tape, const Var& x, const Sequences& rows, const GroupNorm& norm) {
  const Affine affine{norm.gain, norm.bias};
  const RowList sequences = check_rows(x, rows, affine, norm.eps);
  const std::int64_t width = x.dim(2);
  if (norm.groups < 1 || width % norm.groups != 0)
    fail(ErrorCode::usage, std::to_string(norm.groups) + " groups do not divide " + std::to_string(width) + " channels",
         "norm.groups");
  const std::int64_t group = width / norm.groups;
  if (!norm.per_token)
    return measure_and_apply(tape, x, affine, make_sets(sequences, x.dim(1), group, false), norm.eps);
  Var y =
      normalize(tape, reshape(tape, x, {x.dim(0), x.dim(1), norm.groups, group}), {NormKind::layer, norm.eps, {}, {}});
  y = reshape(tape, y, {x.dim(0), x.dim(1), width});
  if (norm.gain.defined()) y = mul(tape, y, norm.gain);
  if (norm.bias.defined()) y = add(tape, y, norm.bias);
  return fill_padding(tape, y, rows);
}

}  // namespace fovea
