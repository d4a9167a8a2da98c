#include "ops/channel_norm_kernels.h"

#include "core/wide.h"
#include "ops/cuda/packs.cuh"

namespace fovea {
namespace {

using namespace device;  // NOLINT
using kernels::ChannelSets;

// Rows [begin, end) that are measured with others of a set.
struct SetStretch {
  std::int64_t begin, end, set;
};
// Its stretches [first, last), and the number of rows in them.
struct ChannelSet {
  std::int64_t first = 0, last = 0;
  double rows = 0.0;
};

std::vector<SetStretch> stretches_of(const ChannelSets& sets) {
  std::vector<SetStretch> list;
  for (std::size_t i = 0; i < sets.of_stretch.size(); ++i)
    list.push_back({sets.stretches.list[i].begin, sets.stretches.list[i].end, sets.of_stretch[i]});
  return list;
}

// The stretches of a set stand side by side.
std::vector<ChannelSet> sets_of(const ChannelSets& sets) {
  std::vector<ChannelSet> list(sets.rows.size());
  for (std::size_t i = 0; i < list.size(); ++i) list[i].rows = sets.rows[i];
  for (std::size_t i = 0; i < sets.of_stretch.size(); ++i) {
    ChannelSet& set = list[static_cast<std::size_t>(sets.of_stretch[i])];
    if (set.last == 0) set.first = static_cast<std::int64_t>(i);
    set.last = static_cast<std::int64_t>(i) + 1;
  }
  return list;
}

struct SetsOnCard {
  SetsOnCard(const Context& context, const ChannelSets& sets)
      : stretches(upload(context, stretches_of(sets))), sets(upload(context, sets_of(sets))), group(sets.group) {}

  Uploaded<SetStretch> stretches;
  Uploaded<ChannelSet> sets;
  std::int64_t group;
};

// f64 (kSums, sets, width): the sums of f(set, row, channel) over the rows of each set. Stretches are cut into parts,
// whose sums are in R.
template <class R, int kSums, class F>
Tensor sum_sets(const Context& context, const SetsOnCard& sets, std::int64_t width, const F& f) {
  constexpr std::int64_t kRows = 32, kParts = Stretches::kLongest / kRows;
  using S = Values<R, kSums>;
  const std::int64_t parts = sets.stretches.size() * kParts, count = sets.sets.size();
  const Tensor scratch = Tensor::empty(context, {static_cast<std::int64_t>(sizeof(S)) * parts * width}, DType::u8,
                                       Lifetime::scratch),
               out = Tensor::empty(context, {kSums, count, width}, DType::f64, Lifetime::scratch);
  S* const partial = static_cast<S*>(scratch.raw());
  double* const to = pointer<double>(out);
  const SetStretch* const stretches = sets.stretches.data();
  const ChannelSet* const all = sets.sets.data();
  each(context, parts * width, [=] __device__(std::int64_t i) {
    const std::int64_t part = i / width, c = i % width;
    const SetStretch stretch = stretches[part / kParts];
    const std::int64_t begin = stretch.begin + part % kParts * kRows;
    const std::int64_t end = begin + kRows < stretch.end ? begin + kRows : stretch.end;
    S sum{};
    for (std::int64_t row = begin; row < end; ++row) sum = sum + f(stretch.set, row, c);
    partial[i] = sum;
  });
  rows(context, count * width, Stretches::kLongest, [=] __device__(const auto& g) {
    const ChannelSet set = all[g.row / width];
    double sum[kSums] = {};
    for (std::int64_t part = set.first * kParts + g.lane; part < set.last * kParts; part += g.lanes)
      for (int k = 0; k < kSums; ++k) sum[k] += static_cast<double>(partial[part * width + g.row % width][k]);
    for (int k = 0; k < kSums; ++k) {
      const double joined = g.sum(sum[k]);
      if (g.lane == 0) to[k * count * width + g.row] = joined;
    }
  });
  return out;
}

// means (sets, width): of sums (sets, width) times gain (width; undefined: none) over a set and a group of channels,
// the same for every channel of the group.
void average(const Context& context, const SetsOnCard& sets, const Tensor& sums, const Tensor& gain,
             const Tensor& means) {
  const std::int64_t width = sums.dim(1), group = sets.group, groups = width / group;
  const Elements<double> from = elements<double>(sums), factor = elements<double>(gain), to = elements<double>(means);
  const ChannelSet* const all = sets.sets.data();
  rows(context, sums.dim(0) * groups, group, [=] __device__(const auto& g) {
    double total = 0.0;
    for (std::int64_t c = g.lane; c < group; c += g.lanes) {
      const std::int64_t i = g.row * group + c;
      total += factor.defined() ? from[i] * factor[i % width] : from[i];
    }
    const double elements = all[g.row / groups].rows * static_cast<double>(group);
    total = g.sum(total) / (elements > 1.0 ? elements : 1.0);
    for (std::int64_t c = g.lane; c < group; c += g.lanes) to.put(g.row * group + c, total);
  });
}

template <class R>
void measure(const Context& context, const kernels::MeasureChannels& io) {
  const SetsOnCard sets(context, *io.sets);
  const std::int64_t width = io.x.dim(1);
  const Elements<R> x = elements<R>(io.x);
  const Tensor sums = sum_sets<R, 1>(context, sets, width,
                                     [=] __device__(std::int64_t, std::int64_t row, std::int64_t c) -> Values<R, 1> {
                                       return {{x[row * width + c]}};
                                     });
  average(context, sets, sums.select(0, 0), {}, io.mean);
  const Tensor means = io.mean.to(context, wide_type(io.x.dtype()));
  const R* const mean = pointer<R>(means);
  const Tensor squares = sum_sets<R, 1>(
      context, sets, width, [=] __device__(std::int64_t set, std::int64_t row, std::int64_t c) -> Values<R, 1> {
        const R centred = x[row * width + c] - mean[set * width + c];
        return {{centred * centred}};
      });
  average(context, sets, squares.select(0, 0), {}, io.variance);
}

// out = from_x (x - shift) + offset + from_g g, numbers of each set and channel.
enum Coefficient { kShift, kFromX, kOffset, kFromG, kCoefficients };
struct Mix {
  Tensor x, g, out;  // g may be undefined
};

template <class R>
void mix(const Context& context, const SetsOnCard& sets, const Tensor& numbers, const Mix& io) {
  const std::int64_t width = io.x.dim(1);
  const Elements<R> x = elements<R>(io.x), g = elements<R>(io.g), out = elements<R>(io.out),
                    table = elements<R>(numbers);
  const SetStretch* const stretches = sets.stretches.data();
  const bool packs = has_packs(io.x, 1) && has_packs(io.g, 1) && has_packs(io.out, 1) && has_packs(numbers, 2);
  each_pack(context, {sets.stretches.size() * Stretches::kLongest, width}, packs,
            [=] __device__(auto neighbours, std::int64_t place, std::int64_t column) {
              constexpr int kCount = decltype(neighbours)::count;
              const SetStretch stretch = stretches[place / Stretches::kLongest];
              const std::int64_t row = stretch.begin + place % Stretches::kLongest, at = row * width + column;
              if (row >= stretch.end) return;
              R of[kCoefficients][kCount], value[kCount], upstream[kCount] = {};
              for (int k = 0; k < kCoefficients; ++k)
                load(table, (stretch.set * kCoefficients + k) * width + column, of[k]);
              load(x, at, value);
              if (g.defined()) load(g, at, upstream);
              for (int k = 0; k < kCount; ++k) {
                value[k] = of[kFromX][k] * (value[k] - of[kShift][k]) + of[kOffset][k];
                if (g.defined()) value[k] += of[kFromG][k] * upstream[k];
              }
              store(out, at, value);
            });
}

Tensor new_numbers(const Context& context, const SetsOnCard& sets, const Tensor& x) {
  return Tensor::empty(context, {sets.sets.size(), kCoefficients, x.dim(1)}, wide_type(x.dtype()), Lifetime::scratch);
}

template <class R>
void apply(const Context& context, const kernels::NormChannels& io) {
  const SetsOnCard sets(context, *io.sets);
  const std::int64_t width = io.x.dim(1);
  const Tensor numbers = new_numbers(context, sets, io.x);
  const Elements<double> mean = elements<double>(io.mean), factor = elements<double>(io.factor),
                         gain = elements<double>(io.gain), bias = elements<double>(io.bias),
                         to = elements<double>(numbers);
  each(context, sets.sets.size() * width, [=] __device__(std::int64_t i) {
    const std::int64_t c = i % width, first = i / width * kCoefficients * width + c;
    to.put(first + kShift * width, mean[i]);
    to.put(first + kFromX * width, factor[i] * gain[c]);
    to.put(first + kOffset * width, bias[c]);
    to.put(first + kFromG * width, 0.0);
  });
  mix<R>(context, sets, numbers, {io.x, {}, io.y});
}

// to (width): numbers (sets, width) summed over the sets.
void fold_sets(const Context& context, const Tensor& numbers, const Tensor& to) {
  const std::int64_t sets = numbers.dim(0), width = numbers.dim(1);
  const Elements<double> from = elements<double>(numbers), out = elements<double>(to);
  rows(context, width, sets, [=] __device__(const auto& g) {
    double sum = 0.0;
    for (std::int64_t i = g.lane * width + g.row; i < sets * width; i += g.lanes * width) sum += from[i];
    sum = g.sum(sum);
    if (g.lane == 0) out.put(g.row, sum);
  });
}

// The numbers of dx from the sums (2, sets, width) of g and g xhat.
Tensor vjp_numbers(const Context& context, const SetsOnCard& sets, const Tensor& sums,
                   const kernels::NormChannelsVjp& io) {
  const std::int64_t width = io.x.dim(1);
  const Tensor numbers = new_numbers(context, sets, io.x), means = Tensor::zeros(context, sums.shape(), DType::f64);
  for (std::int64_t k = 0; k < 2 && !io.fixed; ++k)
    average(context, sets, sums.select(0, k), io.gain, means.select(0, k));
  const Elements<double> mean = elements<double>(io.mean), factor = elements<double>(io.factor),
                         gain = elements<double>(io.gain), plain = elements<double>(means.select(0, 0)),
                         crossed = elements<double>(means.select(0, 1)), to = elements<double>(numbers);
  each(context, sets.sets.size() * width, [=] __device__(std::int64_t i) {
    const std::int64_t c = i % width, first = i / width * kCoefficients * width + c;
    to.put(first + kShift * width, mean[i]);
    to.put(first + kFromX * width, -factor[i] * factor[i] * crossed[i]);
    to.put(first + kOffset * width, -factor[i] * plain[i]);
    to.put(first + kFromG * width, factor[i] * gain[c]);
  });
  return numbers;
}

struct TimesFactor {
  __device__ double operator()(double sum, double factor) const { return sum * factor; }
};

template <class R>
void vjp(const Context& context, const kernels::NormChannelsVjp& io) {
  const SetsOnCard sets(context, *io.sets);
  const std::int64_t width = io.x.dim(1);
  const Tensor means = io.mean.to(context, wide_type(io.x.dtype()));
  const Elements<R> x = elements<R>(io.x), g = elements<R>(io.g);
  const R* const mean = pointer<R>(means);
  const Tensor sums = sum_sets<R, 2>(
      context, sets, width, [=] __device__(std::int64_t set, std::int64_t row, std::int64_t c) -> Values<R, 2> {
        const R upstream = g[row * width + c];
        return {{upstream, upstream * (x[row * width + c] - mean[set * width + c])}};
      });
  const Tensor plain = sums.select(0, 0), crossed = sums.select(0, 1);
  map<double>(context, TimesFactor(), crossed, crossed, io.factor.reshape(crossed.shape()));
  if (io.d_gain.defined()) fold_sets(context, crossed, io.d_gain);
  if (io.d_bias.defined()) fold_sets(context, plain, io.d_bias);
  if (io.dx.defined()) mix<R>(context, sets, vjp_numbers(context, sets, sums, io), {io.x, io.g, io.dx});
}

struct FactorOf {
  double eps;
  __device__ double operator()(double variance) const { return 1.0 / sqrt(variance + eps); }
};

struct Move {
  double momentum, scale;
  __device__ double operator()(double old, double measured) const {
    const double wanted = scale * measured;
    return isfinite(wanted) ? old + momentum * (wanted - old) : old;
  }
};

}  // namespace

template <>
void kernels::measure_channels<Device::cuda>(const Context& context, const MeasureChannels& io) {
  visit_wide(io.x.dtype(), [&]<class R>() { measure<R>(context, io); });
}

template <>
void kernels::channel_factors<Device::cuda>(const Context& context, const ChannelFactors& io) {
  map<double>(context, FactorOf{io.eps}, io.factor, io.variance);
}

template <>
void kernels::norm_channels<Device::cuda>(const Context& context, const NormChannels& io) {
  visit_wide(io.x.dtype(), [&]<class R>() { apply<R>(context, io); });
}

template <>
void kernels::norm_channels_backward<Device::cuda>(const Context& context, const NormChannelsVjp& io) {
  visit_wide(io.x.dtype(), [&]<class R>() { vjp<R>(context, io); });
}

template <>
void kernels::move_towards<Device::cuda>(const Context& context, const MoveTowards& io) {
  map<double>(context, Move{io.momentum, io.scale}, io.running, io.running, io.measured.reshape({io.running.numel()}));
}

}  // namespace fovea
