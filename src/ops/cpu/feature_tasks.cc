#include <cmath>
#include <limits>

#include "core/scratch.h"
#include "ops/cpu/features.h"
#include "ops/features_kernels.h"
#include "ops/work.h"
#include "simd/product.h"

namespace fovea {
namespace {

using cpu::FeatureTask;

// A head and at most 256 rows of a sequence each: enough for its own products, and for all threads.
std::vector<FeatureTask> tasks_of(const std::vector<Sequences::Rows>& rows, std::int64_t heads) {
  constexpr std::int64_t kRows = 256;
  std::vector<FeatureTask> tasks;
  for (const auto& [batch, begin, count] : rows)
    for (std::int64_t i = 0; i < count; i += kRows)
      for (std::int64_t h = 0; h < heads; ++h)
        tasks.push_back({batch, begin + i, begin + std::min(count, i + kRows), h});
  return tasks;
}

// body(task number, scratch of the thread)
template <class Body>
void for_tasks(const Context& context, const cpu::FeatureRows& in, std::size_t count, const Body& body) {
  const ZoneTimer timer(context.zones(), Zone::elementwise);
  const auto tasks = static_cast<std::int64_t>(count);
  const int threads = static_cast<int>(std::clamp<std::int64_t>(tasks, 1, context.threads()));
  const std::size_t bytes = cpu::feature_scratch_bytes(in);
  const Scratch<std::byte> scratch(context, bytes * static_cast<std::size_t>(threads));
  parallel(threads, [&](const Team& team) {
    for (std::int64_t i = team.take(); i < tasks; i = team.take())
      body(static_cast<std::size_t>(i), scratch.part(static_cast<std::size_t>(team.rank()), bytes));
  });
}

// directions (groups, r, d) times a factor, rows padded with zeros; `across`: as (groups, d, r).
Tensor pack(const Context& context, const Tensor& directions, bool across, double factor) {
  return visit_wide(directions.dtype(), [&]<class R>() {
    const std::int64_t groups = directions.dim(0), r = directions.dim(1), d = directions.dim(2);
    const std::int64_t rows = across ? d : r, columns = across ? r : d;
    const auto ld = static_cast<std::int64_t>(padded<R>(static_cast<std::size_t>(columns)));
    const Tensor packed = Tensor::zeros(context, {groups, rows, ld}, directions.dtype(), Lifetime::scratch);
    const R* from = directions.data<R>();
    for (std::int64_t g = 0; g < groups; ++g)
      for (std::int64_t l = 0; l < r; ++l)
        for (std::int64_t c = 0; c < d; ++c)
          packed.data<R>()[(g * rows + (across ? c : l)) * ld + (across ? l : c)] =
              static_cast<R>(factor * static_cast<double>(*from++));
    return packed;
  });
}

// What must be taken off an exponent for the longest direction, see FeatureOptions.
double shift_of(const FeatureOptions& options, const Tensor& directions) {
  if (options.largest_exponent == math::kInfinity<double>) return options.shift;
  double most = 0.0;
  visit_wide(directions.dtype(), [&]<class R>() {
    const R* w = directions.data<R>();
    for (std::int64_t l = 0; l < directions.numel(); l += directions.dim(2)) {
      double half_norm = 0.0;
      for (std::int64_t c = l; c < l + directions.dim(2); ++c)
        half_norm += 0.5 * static_cast<double>(w[c]) * static_cast<double>(w[c]);
      most = std::fmax(most, half_norm);
    }
  });
  return options.shift + std::fmax(0.0, most - options.largest_exponent);
}

cpu::FeatureRows describe(const FeatureOptions& options, const Tensor& x, const Tensor& directions) {
  cpu::FeatureRows in;
  in.map = options.map;
  in.scale = options.scale;
  in.size = options.size;
  in.add = options.add;
  in.unit = options.unit;
  in.subtract_norm = options.subtract_norm;
  in.stabilizer = options.stabilizer;
  in.pull_shift = options.pull_shift;
  in.shift = shift_of(options, directions);
  in.x = x;
  return in;
}

// The largest u of each row, (b, n, heads), into `tops` where there are any already.
Tensor row_tops(const Context& context, cpu::FeatureRows& in, const std::vector<FeatureTask>& tasks,
                const Tensor& tops) {
  in.tops =
      tops.defined() ? tops : Tensor::empty(context, {in.x.dim(0), in.x.dim(1), in.x.dim(2)}, wide_type(in.x.dtype()));
  for_tasks(context, in, tasks.size(), [&](std::size_t i, Room scratch) { cpu::feature_tops(in, tasks[i], scratch); });
  return in.tops;
}

// That of the sequence and head in place of each row's own.
Tensor spread(const Context& context, const Tensor& tops, const std::vector<Sequences::Rows>& sequences) {
  const Tensor out = Tensor::empty(context, tops.shape(), tops.dtype());
  const std::int64_t heads = tops.dim(2);
  visit_wide(tops.dtype(), [&]<class R>() {
    for (const auto& [batch, begin, count] : sequences)
      for (std::int64_t h = 0; h < heads; ++h) {
        const std::int64_t first = (batch * tops.dim(1) + begin) * heads + h;
        R top = -math::kInfinity<R>;
        for (std::int64_t i = 0; i < count; ++i) top = std::max(top, tops.data<R>()[first + i * heads]);
        for (std::int64_t i = 0; i < count; ++i) out.data<R>()[first + i * heads] = top;
      }
  });
  return out;
}

// Whether the exponents of a row may fall so low that nothing is left of their exponentials in f32: no product with a
// direction makes up for more of |z|^2 / 2 than |w|^2 / 2, and few for much.
bool fades(const cpu::FeatureRows& in, std::int64_t batch, std::int64_t row, std::int64_t head) {
  constexpr double kFaint = 30.0;
  return visit_float(in.x.dtype(), [&]<class T>() {
    const T* x = in.x.data<T>() + batch * in.x.stride(0) + row * in.x.stride(1) + head * in.x.stride(2);
    const std::int64_t d = in.x.dim(3);
    Wide<T> squares = 0;
#pragma omp simd reduction(+ : squares)
    for (std::int64_t c = 0; c < d; ++c) squares += static_cast<Wide<T>>(x[c]) * static_cast<Wide<T>>(x[c]);
    return !(0.5 * in.scale * in.scale * static_cast<double>(squares) + in.shift <= kFaint);
  });
}

// A sequence and a head of it.
struct HeadRows {
  const Sequences::Rows& rows;
  std::int64_t sequence, head;

  std::int64_t first(const Tensor& x) const { return (rows.batch * x.dim(1) + rows.begin) * x.dim(2) + head; }
};

bool fades(const cpu::FeatureRows& in, const HeadRows& of) {
  for (std::int64_t i = of.rows.begin; i < of.rows.begin + of.rows.count; ++i)
    if (fades(in, of.rows.batch, i, of.head)) return true;
  return false;
}

// The stabilizers of a sequence in place of the largest exponents of its rows.
template <class R>
void settle(const cpu::FeatureRows& in, const HeadRows& of, bool fading, const kernels::FeatureRescue& io) {
  const std::int64_t heads = in.x.dim(2), count = of.rows.count;
  const R unit = static_cast<R>(cpu::feature_unit(in.map)), shift = static_cast<R>(in.shift) * unit;
  R* c = io.shifts.data<R>() + of.first(io.shifts);
  R last = fading ? std::numeric_limits<R>::lowest() : shift;
  if (io.log_decay.defined()) {
    R* decay = io.log_decay.data<R>() + of.first(io.log_decay);
    for (std::int64_t i = 0; i < count; ++i) {
      const bool faint = fading && fades(in, of.rows.batch, of.rows.begin + i, of.head);
      const R now = std::max(last, faint ? std::min(c[i * heads], shift) : shift);
      decay[i * heads] = i == 0 ? R{0} : (last - now) / unit;
      c[i * heads] = last = now;
    }
  } else {
    for (std::int64_t i = 0; fading && i < count; ++i) last = std::max(last, c[i * heads]);
    for (std::int64_t i = 0; i < count; ++i) c[i * heads] = last;
  }
  io.state_scale.data<R>()[of.sequence * heads + of.head] = std::exp((last - shift) / unit);
}

// Gradient of c = max u: given to the direction and the row that have it. dz -= (sum of the rows' sums) W_l.
template <class T>
void vjp_tops(const cpu::FeatureBackward& io, const Tensor& directions, const Sequences::Rows& rows) {
  using R = Wide<T>;
  const std::int64_t heads = io.y.dim(2), r = io.in.count, d = directions.dim(2), group = heads / directions.dim(0);
  const std::int64_t first = rows.batch * io.y.dim(1) + rows.begin;
  for (std::int64_t h = 0; h < heads; ++h) {
    R total = 0;
    std::int64_t at = 0;
    double top = -math::kInfinity<double>;
    for (std::int64_t i = 0; i < rows.count; ++i) {
      total += io.sums.data<R>()[(first + i) * heads + h];
      const double u = io.in.tops.data<R>()[(first + i) * heads + h];
      if (u <= top) continue;
      top = u;
      at = i;
    }
    const std::int64_t most = io.in.peaks.data<std::int32_t>()[(first + at) * heads + h];
    T* dx = io.dx.data<T>() + rows.batch * io.dx.stride(0) + (rows.begin + at) * io.dx.stride(1) + h * io.dx.stride(2);
    const R* direction = directions.data<R>() + (h / group * r + most) * d;
    for (std::int64_t c = 0; c < d; ++c)
      dx[c] = T(static_cast<R>(dx[c]) - total * direction[c] * static_cast<R>(io.in.scale));
  }
}

// Shares of the tasks (tasks, d) summed for each group, in order.
void fold_gain(const Tensor& shares, const std::vector<FeatureTask>& tasks, std::int64_t heads, const Tensor& sum) {
  const std::int64_t groups = sum.dim(0), d = shares.dim(1);
  visit_wide(shares.dtype(), [&]<class R>() {
    for (std::size_t i = 0; i < tasks.size(); ++i)
      for (std::int64_t c = 0; c < d; ++c)
        sum.data<R>()[tasks[i].head * groups / heads * d + c] += shares.data<R>()[static_cast<std::int64_t>(i) * d + c];
  });
}

}  // namespace

template <>
void kernels::features<Device::cpu>(const Context& context, const FeatureForward& io) {
  const FeatureOptions& options = *io.options;
  const std::vector<FeatureTask> tasks = tasks_of(options.rows, io.x.dim(2));
  cpu::FeatureForward rows{describe(options, io.x, io.directions), io.y};
  rows.in.directions = pack(context, io.directions, true, cpu::feature_unit(options.map));
  rows.in.count = io.directions.dim(1);
  rows.in.gain = io.gain;
  rows.in.weight = io.weight;
  rows.in.peaks = io.peaks;
  if (io.tops.defined()) rows.in.tops = spread(context, row_tops(context, rows.in, tasks, io.tops), options.rows);
  if (io.shifts.defined()) rows.in.tops = io.shifts;
  for_tasks(context, rows.in, tasks.size(),
            [&](std::size_t i, Room scratch) { cpu::feature_rows(rows, tasks[i], scratch); });
}

// What is common to a sequence does not depend on its neighbours.
template <>
void kernels::find_rescue<Device::cpu>(const Context& context, const FeatureRescue& io) {
  const FeatureOptions& options = *io.options;
  cpu::FeatureRows in = describe(options, io.x, io.directions);
  in.stabilizer = Stabilizer::given;
  const std::int64_t heads = io.x.dim(2), all = std::ssize(options.rows) * heads;
  const auto at = [&](std::int64_t i) {
    return HeadRows{options.rows[static_cast<std::size_t>(i / heads)], i / heads, i % heads};
  };
  std::vector<std::uint8_t> faint(static_cast<std::size_t>(all));
  parallel_for(context, all, [&](std::int64_t i) { faint[static_cast<std::size_t>(i)] = fades(in, at(i)); });
  const bool needed = std::find(faint.begin(), faint.end(), 1) != faint.end();
  *io.needed.data<std::uint8_t>() = needed ? 1 : 0;
  if (!needed && !io.always) return;
  in.directions = pack(context, io.directions, true, cpu::feature_unit(options.map));
  in.count = io.directions.dim(1);
  row_tops(context, in, tasks_of(options.rows, heads), io.shifts);
  visit_wide(io.shifts.dtype(), [&]<class R>() {
    parallel_for(context, all,
                 [&](std::int64_t i) { settle<R>(in, at(i), faint[static_cast<std::size_t>(i)] != 0, io); });
  });
}

template <>
void kernels::features_backward<Device::cpu>(const Context& context, const FeatureBackward& io) {
  const FeatureOptions& options = *io.options;
  const std::vector<FeatureTask> tasks = tasks_of(options.rows, io.x.dim(2));
  const DType wide = wide_type(io.x.dtype());
  cpu::FeatureBackward rows{describe(options, io.x, io.directions), io.y, io.dy, io.dx, io.d_weight, {}};
  rows.in.directions = pack(context, io.directions, false, 1.0);
  rows.in.count = io.directions.dim(1);
  rows.in.gain = io.gain;
  rows.in.weight = io.weight;
  rows.in.tops = io.tops;
  rows.in.peaks = io.peaks;
  if (io.tops.defined() && options.pull_shift)
    rows.sums = Tensor::empty(context, io.tops.shape(), wide, Lifetime::scratch);
  const Tensor shares = io.d_gain.defined() ? Tensor::zeros(context, {std::ssize(tasks), io.x.dim(3)}, wide) : Tensor();
  for_tasks(context, rows.in, tasks.size(), [&](std::size_t i, Room scratch) {
    void* share = shares.defined() ? shares.select(0, static_cast<std::int64_t>(i)).raw() : nullptr;
    cpu::vjp_feature_rows(rows, tasks[i], share, scratch);
  });
  if (rows.sums.defined())
    for (const Sequences::Rows& sequence : options.rows)
      if (sequence.count > 0) visit_float(io.x.dtype(), [&]<class T>() { vjp_tops<T>(rows, io.directions, sequence); });
  if (shares.defined()) fold_gain(shares, tasks, io.x.dim(2), io.d_gain);
}

}  // namespace fovea
