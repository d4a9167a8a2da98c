#include "ops/channel_norm_kernels.h"

#include <cmath>

#include "ops/cpu/channel.h"
#include "ops/cpu/column_sum.h"
#include "ops/work.h"

namespace fovea {
namespace {

using kernels::ChannelSets;
using Table = std::vector<double>;  // (sets, width), or a multiple of that width

// body(set, rows, i) on every stretch i, in parallel.
template <class Body>
void for_stretches(const Context& context, const ChannelSets& sets, std::int64_t width, Body&& body) {
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
Table sum_sets(const Context& context, const ChannelSets& sets, std::int64_t columns, DType dtype, Body&& body) {
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
void average(const ChannelSets& sets, Table& sums) {
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
  const Tensor out = Tensor::empty(context, {std::ssize(values) / like.dim(1), like.dim(1)}, wide_type(like.dtype()));
  visit_wide(out.dtype(), [&]<class R>() {
    for (std::size_t i = 0; i < values.size(); ++i) out.data<R>()[i] = static_cast<R>(values[i]);
  });
  return out;
}

// The values of a dense tensor of any floating dtype.
Table table_of(const Tensor& t) {
  Table values(static_cast<std::size_t>(t.numel()));
  visit_float(t.dtype(), [&]<class T>() {
    for (std::size_t i = 0; i < values.size(); ++i)
      values[i] = static_cast<double>(static_cast<Wide<T>>(t.data<T>()[i]));
  });
  return values;
}

// The coefficients of a mix for every set: value(coefficient, set * width + channel).
template <class Value>
Tensor coefficients(const Context& context, const ChannelSets& sets, const Tensor& like, Value&& value) {
  const auto width = static_cast<std::size_t>(like.dim(1));
  Table numbers(sets.rows.size() * cpu::kCoefficients * width);
  for (std::size_t set = 0; set < sets.rows.size(); ++set)
    for (std::size_t k = 0; k < cpu::kCoefficients; ++k)
      for (std::size_t c = 0; c < width; ++c)
        numbers[(set * cpu::kCoefficients + k) * width + c] = value(static_cast<cpu::Coefficient>(k), set * width + c);
  return to_tensor(context, numbers, like);
}

void mix(const Context& context, const ChannelSets& sets, const cpu::Mix& io, const Tensor& numbers) {
  for_stretches(context, sets, io.x.dim(1), [&](std::int64_t set, cpu::RowRange rows, std::int64_t) {
    cpu::mix_channels(io, numbers.select(0, set * cpu::kCoefficients).raw(), rows);
  });
}

// Sums over the sets of g and of g xhat, and their means over everything measured together, gain included.
struct Vjp {
  Table plain, crossed, mean_plain, mean_crossed;
};

Vjp vjp(const Context& context, const kernels::NormChannelsVjp& io, const Table& gain) {
  const auto width = static_cast<std::size_t>(io.x.dim(1));
  const Table factor = table_of(io.factor);
  const Tensor shift = to_tensor(context, table_of(io.mean), io.x);
  const auto add = [&](std::int64_t set, cpu::RowRange rows, void* to) {
    cpu::add_vjp({io.g, io.x}, shift.select(0, set).raw(), rows, to);
  };
  const Table sums = sum_sets(context, *io.sets, 2 * io.x.dim(1), io.x.dtype(), add);
  Vjp p{Table(factor.size()), Table(factor.size()), {}, {}};
  for (std::size_t i = 0; i < factor.size(); ++i) {
    p.plain[i] = sums[i / width * 2 * width + i % width];
    p.crossed[i] = sums[(i / width * 2 + 1) * width + i % width] * factor[i];
  }
  p.mean_plain = p.plain;
  p.mean_crossed = p.crossed;
  for (Table* means : {&p.mean_plain, &p.mean_crossed}) {
    for (std::size_t i = 0; i < means->size(); ++i) (*means)[i] *= io.fixed ? 0.0 : gain[i % width];
    average(*io.sets, *means);
  }
  return p;
}

// (sets, width) summed over the sets.
void fold_sets(const Table& values, const Tensor& to) {
  const auto width = static_cast<std::size_t>(to.numel());
  Table sums(width, 0.0);
  for (std::size_t i = 0; i < values.size(); ++i) sums[i % width] += values[i];
  visit_wide(to.dtype(), [&]<class R>() {
    for (std::size_t c = 0; c < width; ++c) to.data<R>()[c] = static_cast<R>(sums[c]);
  });
}

}  // namespace

template <>
void kernels::measure_channels<Device::cpu>(const Context& context, const MeasureChannels& io) {
  const Tensor& x = io.x;
  Table mean = sum_sets(context, *io.sets, x.dim(1), x.dtype(), [&](std::int64_t, cpu::RowRange rows, void* sums) {
    cpu::add_columns({x, {}}, rows.begin, rows.end, sums);
  });
  average(*io.sets, mean);
  std::copy(mean.begin(), mean.end(), io.mean.data<double>());
  const Tensor shift = to_tensor(context, mean, x);
  Table variance =
      sum_sets(context, *io.sets, x.dim(1), x.dtype(), [&](std::int64_t set, cpu::RowRange rows, void* sums) {
        cpu::add_squares(x, shift.select(0, set).raw(), rows, sums);
      });
  average(*io.sets, variance);
  std::copy(variance.begin(), variance.end(), io.variance.data<double>());
}

template <>
void kernels::channel_factors<Device::cpu>(const Context&, const ChannelFactors& io) {
  double* to = io.factor.data<double>();
  for (const double v : table_of(io.variance)) *to++ = 1.0 / std::sqrt(v + io.eps);
}

template <>
void kernels::norm_channels<Device::cpu>(const Context& context, const NormChannels& io) {
  const Table mean = table_of(io.mean), factor = table_of(io.factor), gain = table_of(io.gain),
              bias = table_of(io.bias);
  const Tensor numbers = coefficients(context, *io.sets, io.x, [&](cpu::Coefficient k, std::size_t i) {
    switch (k) {
      case cpu::kShift: return mean[i];
      case cpu::kFromX: return factor[i] * gain[i % gain.size()];
      case cpu::kOffset: return bias[i % bias.size()];
      default: return 0.0;
    }
  });
  mix(context, *io.sets, {io.x, {}, io.y}, numbers);
}

template <>
void kernels::norm_channels_backward<Device::cpu>(const Context& context, const NormChannelsVjp& io) {
  const Table gain = table_of(io.gain);
  const Vjp p = vjp(context, io, gain);
  if (io.d_gain.defined()) fold_sets(p.crossed, io.d_gain);
  if (io.d_bias.defined()) fold_sets(p.plain, io.d_bias);
  if (!io.dx.defined()) return;
  const Table mean = table_of(io.mean), factors = table_of(io.factor);
  const Tensor numbers = coefficients(context, *io.sets, io.x, [&](cpu::Coefficient k, std::size_t i) {
    const double factor = factors[i];
    switch (k) {
      case cpu::kShift: return mean[i];
      case cpu::kFromX: return -factor * factor * p.mean_crossed[i];
      case cpu::kOffset: return -factor * p.mean_plain[i];
      default: return factor * gain[i % gain.size()];
    }
  });
  mix(context, *io.sets, {io.x, io.g, io.dx}, numbers);
}

template <>
void kernels::move_towards<Device::cpu>(const Context&, const MoveTowards& io) {
  const double* measured = io.measured.data<double>();
  visit_wide(io.running.dtype(), [&]<class R>() {
    for (std::int64_t c = 0; c < io.running.numel(); ++c) {
      const double wanted = io.scale * measured[c];
      if (!std::isfinite(wanted)) continue;
      const double old = static_cast<double>(io.running.data<R>()[c]);
      io.running.data<R>()[c] = static_cast<R>(old + io.momentum * (wanted - old));
    }
  });
}

}  // namespace fovea
