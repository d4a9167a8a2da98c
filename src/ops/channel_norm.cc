#include <cmath>
#include <numeric>
#include <vector>

#include "fovea/ops.h"
#include "ops/affine.h"
#include "ops/channel_cpu.h"
#include "ops/column_sum_cpu.h"
#include "ops/sequence.h"
#include "ops/spans.h"
#include "ops/work.h"

// Norms whose mean and variance belong to channels and not to rows. They differ only in what is measured together: all
// rows (batch), those of a sequence (instance), and with them a group of channels (group).
namespace fovea {
namespace {

using Table = std::vector<double>;  // (sets, width), or a multiple of that width

// What is measured together.
struct Sets {
  Stretches stretches;
  std::vector<std::int64_t> of_stretch;
  std::vector<double> rows;  // of each set
  std::int64_t group;        // channels
};

Sets make_sets(const RowList& sequences, std::int64_t n, std::int64_t group, bool joined) {
  Sets sets{Stretches(sequences, n), {}, std::vector<double>(joined ? 1 : sequences.size(), 0.0), group};
  for (std::size_t s = 0; s < sequences.size(); ++s) {
    const std::size_t set = joined ? 0 : s;
    sets.rows[set] += static_cast<double>(sequences[s].count);
    const std::int64_t stretches = sets.stretches.first[s + 1] - sets.stretches.first[s];
    sets.of_stretch.insert(sets.of_stretch.end(), static_cast<std::size_t>(stretches), static_cast<std::int64_t>(set));
  }
  return sets;
}

// body(set, rows, i) on every stretch i, in parallel.
template <class Body>
void for_stretches(const Context& context, const Sets& sets, std::int64_t width, Body&& body) {
  const auto count = static_cast<std::int64_t>(sets.of_stretch.size());
  for_rows(context, count, width * Stretches::kLongest, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const auto at = static_cast<std::size_t>(i);
      body(sets.of_stretch[at], cpu::RowRange{sets.stretches.list[at].begin, sets.stretches.list[at].end}, i);
    }
  });
}

// body(set, rows, sums) adds up a stretch; then the stretches of each set are joined in order.
template <class Body>
Table sum_sets(const Context& context, const Sets& sets, std::int64_t columns, DType dtype, Body&& body) {
  const auto count = static_cast<std::int64_t>(sets.of_stretch.size());
  const Tensor partial = Tensor::zeros(context, {count, columns}, wide_type(dtype), Lifetime::scratch);
  for_stretches(context, sets, columns, [&](std::int64_t set, cpu::RowRange rows, std::int64_t i) {
    body(set, rows, partial.select(0, i).raw());
  });
  Table sums(sets.rows.size() * static_cast<std::size_t>(columns), 0.0);
  visit_wide(partial.dtype(), [&]<class R>() {
    for (std::int64_t i = 0; i < count; ++i) {
      const R* from = partial.data<R>() + i * columns;
      double* to = sums.data() + sets.of_stretch[static_cast<std::size_t>(i)] * columns;
      for (std::int64_t c = 0; c < columns; ++c) to[c] += static_cast<double>(from[c]);
    }
  });
  return sums;
}

// Sums (sets, width) become means over a set and a group of channels, the same for every channel of the group.
void average(const Sets& sets, Table& sums) {
  const auto group = static_cast<std::size_t>(sets.group);
  const std::size_t groups = sums.size() / group, per_set = groups / std::max<std::size_t>(1, sets.rows.size());
  for (std::size_t i = 0; i < groups; ++i) {
    double total = 0.0;
    for (std::size_t c = 0; c < group; ++c) total += sums[i * group + c];
    const double elements = std::max(1.0, sets.rows[i / per_set] * static_cast<double>(group));
    std::fill_n(sums.begin() + static_cast<std::ptrdiff_t>(i * group), group, total / elements);
  }
}

Tensor to_tensor(const Context& context, const Table& values, const Tensor& like) {
  const Tensor wide_values = Tensor::from<double>(context, {std::ssize(values) / like.dim(1), like.dim(1)}, values);
  return wide_values.to(context, wide_type(like.dtype()));
}

struct Statistics {
  Table mean, variance;  // (sets, width)
};

Statistics measure(const Context& context, const Tensor& x, const Sets& sets) {
  Statistics s;
  s.mean = sum_sets(context, sets, x.dim(1), x.dtype(), [&](std::int64_t, cpu::RowRange rows, void* sums) {
    cpu::add_columns({x, {}}, rows.begin, rows.end, sums);
  });
  average(sets, s.mean);
  const Tensor shift = to_tensor(context, s.mean, x);
  s.variance = sum_sets(context, sets, x.dim(1), x.dtype(), [&](std::int64_t set, cpu::RowRange rows, void* sums) {
    cpu::add_squares(x, shift.select(0, set).raw(), rows, sums);
  });
  average(sets, s.variance);
  return s;
}

// The coefficients of a mix for every set: value(coefficient, set * width + channel).
template <class Value>
Tensor coefficients(const Context& context, const Sets& sets, const Tensor& like, Value&& value) {
  const auto width = static_cast<std::size_t>(like.dim(1));
  Table numbers(sets.rows.size() * cpu::kCoefficients * width);
  for (std::size_t set = 0; set < sets.rows.size(); ++set)
    for (std::size_t k = 0; k < cpu::kCoefficients; ++k)
      for (std::size_t c = 0; c < width; ++c)
        numbers[(set * cpu::kCoefficients + k) * width + c] = value(static_cast<cpu::Coefficient>(k), set * width + c);
  return to_tensor(context, numbers, like);
}

// Memory for a result of x's shape, 0 where no set has rows.
Tensor room(const Context& context, const Tensor& x, const Sets& sets) {
  const double rows = std::accumulate(sets.rows.begin(), sets.rows.end(), 0.0);
  return rows == static_cast<double>(x.dim(0)) ? Tensor::empty(context, x.shape(), x.dtype())
                                               : Tensor::zeros(context, x.shape(), x.dtype());
}

void mix(const Context& context, const Sets& sets, const cpu::Mix& io, const Tensor& numbers) {
  for_stretches(context, sets, io.x.dim(1), [&](std::int64_t set, cpu::RowRange rows, std::int64_t) {
    cpu::mix_channels(io, numbers.select(0, set * cpu::kCoefficients).raw(), rows);
  });
}

// What backward needs, besides x and the gain.
struct Normed {
  Sets sets;
  Table shift, factor;  // (sets, width)
  bool fixed;           // statistics that do not depend on x
};

// Sums over the sets of g and of g xhat, and their means over everything measured together, gain included.
struct Pull {
  Table plain, crossed, mean_plain, mean_crossed;
};

Pull pull(const Context& context, const Normed& normed, const cpu::Pulled& io, const Table& gain) {
  const auto width = static_cast<std::size_t>(io.x.dim(1));
  const Tensor shift = to_tensor(context, normed.shift, io.x);
  const auto add = [&](std::int64_t set, cpu::RowRange rows, void* to) {
    cpu::add_pulled(io, shift.select(0, set).raw(), rows, to);
  };
  const Table sums = sum_sets(context, normed.sets, 2 * io.x.dim(1), io.x.dtype(), add);
  Pull p{Table(normed.shift.size()), Table(normed.shift.size()), {}, {}};
  for (std::size_t i = 0; i < normed.shift.size(); ++i) {
    p.plain[i] = sums[i / width * 2 * width + i % width];
    p.crossed[i] = sums[(i / width * 2 + 1) * width + i % width] * normed.factor[i];
  }
  p.mean_plain = p.plain;
  p.mean_crossed = p.crossed;
  for (Table* means : {&p.mean_plain, &p.mean_crossed}) {
    for (std::size_t i = 0; i < means->size(); ++i) (*means)[i] *= normed.fixed ? 0.0 : gain[i % width];
    average(normed.sets, *means);
  }
  return p;
}

// (sets, width) summed over the sets.
Tensor fold_sets(const Context& context, const Table& values, const Tensor& like) {
  const auto width = static_cast<std::size_t>(like.dim(1));
  Table sums(width, 0.0);
  for (std::size_t i = 0; i < values.size(); ++i) sums[i % width] += values[i];
  return to_tensor(context, sums, like).reshape({like.dim(1)});
}

// saved: x (rows, width) and the gain. dx = factor (gain g - mean(gain g) - xhat mean(gain g xhat)).
void backward(Tape& tape, Node& node) {
  const Context& context = tape.context();
  const auto& normed = std::any_cast<const Normed&>(node.attributes);
  const Tensor& x = node.saved[0];
  const Tensor g = node.grad().contiguous(context).reshape(x.shape());
  const Table gain = node.saved[1].to_vector<double>();
  const Pull p = pull(context, normed, {g, x}, gain);
  if (node.wants(1)) tape.accumulate(node.inputs[1], fold_sets(context, p.crossed, x));
  if (node.wants(2)) tape.accumulate(node.inputs[2], fold_sets(context, p.plain, x));
  if (!node.wants(0)) return;
  const Tensor numbers = coefficients(context, normed.sets, x, [&](cpu::Coefficient k, std::size_t i) {
    const double factor = normed.factor[i];
    switch (k) {
      case cpu::kShift: return normed.shift[i];
      case cpu::kFromX: return -factor * factor * p.mean_crossed[i];
      case cpu::kOffset: return -factor * p.mean_plain[i];
      default: return factor * gain[i % gain.size()];
    }
  });
  const Tensor dx = room(context, x, normed.sets);
  mix(context, normed.sets, {x, g, dx}, numbers);
  tape.accumulate(node.inputs[0], dx.reshape(node.inputs[0]->shape));
}

constexpr Op kChannelNorm{"channel_norm", backward};

struct Affine {
  const Var &gain, &bias;
};

Tensor as_rows(const Context& context, const Var& x) {
  return x.value().contiguous(context).reshape({x.dim(0) * x.dim(1), x.dim(2)});
}

// y = (x - shift) factor gain + bias; 0 in padding. in: the rows of x.
Var apply(Tape& tape, const Var& x, const Tensor& in, const Affine& affine, Normed normed) {
  const Context& context = tape.context();
  const Tensor gain = wide_parameter(context, affine.gain, in, 1.0);
  const Table gains = gain.to_vector<double>(),
              biases = wide_parameter(context, affine.bias, in, 0.0).to_vector<double>();
  const Tensor numbers = coefficients(context, normed.sets, in, [&](cpu::Coefficient k, std::size_t i) {
    switch (k) {
      case cpu::kShift: return normed.shift[i];
      case cpu::kFromX: return normed.factor[i] * gains[i % gains.size()];
      case cpu::kOffset: return biases[i % biases.size()];
      default: return 0.0;
    }
  });
  const Tensor y = room(context, in, normed.sets);
  mix(context, normed.sets, {in, {}, y}, numbers);
  return tape.record(kChannelNorm, {x, affine.gain, affine.bias}, y.reshape(x.shape()), {in, gain}, std::move(normed));
}

Table factors(const Table& variance, double eps) {
  Table out;
  for (const double v : variance) out.push_back(1.0 / std::sqrt(v + eps));
  return out;
}

// Measures x and normalises by that.
Var measure_and_apply(Tape& tape, const Var& x, const Affine& affine, Sets sets, double eps) {
  const Tensor in = as_rows(tape.context(), x);
  Statistics s = measure(tape.context(), in, sets);
  const Table factor = factors(s.variance, eps);
  return apply(tape, x, in, affine, {std::move(sets), std::move(s.mean), factor, false});
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

// running += momentum (measured - running). What is not finite moves nothing: its step is skipped or fails, and running
// values would never recover.
void move_towards(const Tensor& running, const Table& measured, double momentum) {
  visit_wide(running.dtype(), [&]<class R>() {
    for (std::size_t c = 0; c < measured.size(); ++c) {
      if (!std::isfinite(measured[c])) continue;
      const double old = static_cast<double>(running.data<R>()[c]);
      running.data<R>()[c] = static_cast<R>(old + momentum * (measured[c] - old));
    }
  });
}

}  // namespace

Var batch_norm(Tape& tape, const Var& x, const Sequences& rows, const BatchNorm& norm) {
  const Affine affine{norm.gain, norm.bias};
  const RowList sequences = check_rows(x, rows, affine, norm.eps);
  check_running(norm.running_mean, x, "norm.running_mean");
  check_running(norm.running_var, x, "norm.running_var");
  Sets sets = make_sets(sequences, x.dim(1), 1, true);
  const Tensor in = as_rows(tape.context(), x);
  if (!tape.training()) {
    const Table factor = factors(norm.running_var.to_vector<double>(), norm.eps);
    return apply(tape, x, in, affine, {std::move(sets), norm.running_mean.to_vector<double>(), factor, true});
  }
  Statistics s = measure(tape.context(), in, sets);
  const double count = sets.rows[0];
  const Table factor = factors(s.variance, norm.eps);
  if (count > 0.0 && !tape.replaying()) {
    move_towards(norm.running_mean, s.mean, norm.momentum);
    for (double& v : s.variance) v *= count / std::max(1.0, count - 1.0);  // unbiased
    move_towards(norm.running_var, s.variance, norm.momentum);
  }
  return apply(tape, x, in, affine, {std::move(sets), std::move(s.mean), factor, false});
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
