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
  for (std::size_t s = 0; s < rows.size(); ++s) {
    const auto& [batch, begin, count] = rows[s];
    for (std::int64_t i = 0; i < count; i += kRows)
      for (std::int64_t h = 0; h < heads; ++h)
        tasks.push_back({batch, begin + i, begin + std::min(count, i + kRows), h, static_cast<std::int64_t>(s), begin});
  }
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
  if (options.stabilizer == Stabilizer::level) return 0.0;
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
  in.levels = options.levels;
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

bool fades(const cpu::FeatureRows& in, std::int64_t batch, std::int64_t row, std::int64_t head) {
  return visit_float(in.x.dtype(), [&]<class T>() {
    const T* x = in.x.data<T>() + batch * in.x.stride(0) + row * in.x.stride(1) + head * in.x.stride(2);
    const std::int64_t d = in.x.dim(3);
    Wide<T> squares = 0;
#pragma omp simd reduction(+ : squares)
    for (std::int64_t c = 0; c < d; ++c) squares += static_cast<Wide<T>>(x[c]) * static_cast<Wide<T>>(x[c]);
    return !(0.5 * in.scale * in.scale * static_cast<double>(squares) + in.shift <= kFaint);
  });
}

std::int64_t first_fading(const cpu::FeatureRows& in, const Sequences::Rows& rows) {
  for (std::int64_t i = 0; i < rows.count; ++i)
    for (std::int64_t h = 0; h < in.x.dim(2); ++h)
      if (fades(in, rows.batch, rows.begin + i, h)) return i;
  return rows.count;
}

// The levels of one head of a sequence, r of them at a time.
template <class R>
class HeadLevels {
 public:
  HeadLevels(const kernels::LevelTensors& io, double shift, std::int64_t sequence, std::int64_t head)
      : io_(io),
        span_(io.levels.spans[static_cast<std::size_t>(sequence)]),
        sums_((sequence * heads() + head) * r()),
        head_(head),
        unit_(static_cast<R>(cpu::feature_unit(io.options->map))),
        shift_(static_cast<R>(shift) * unit_) {}

  // exponents: (b n, heads, r), which in order become levels in their place. Where they are in no order and no row
  // fades, `shift` is the level of all.
  void settle(std::int64_t count, bool fades, const Tensor& exponents) const {
    R* level = at(io_.levels.rows, span_.floor);
    begin(level);
    const std::vector<R> before(level, level + r());
    if (!io_.levels.in_order && !fades && count > 0) std::fill_n(level, r(), shift_);
    for (std::int64_t t = 0; !io_.levels.in_order && fades && t < count; ++t)
      raise(at(exponents, span_.first + t), level, level);
    for (std::int64_t l = 0; l < r(); ++l)
      io_.state_in.data<R>()[sums_ + l] =
          before[static_cast<std::size_t>(l)] == kNone ? R{0} : std::exp2(shift_ - level[l]);
    for (std::int64_t t = 0; io_.levels.in_order && t < count; ++t) {
      R *row = at(exponents, span_.first + t), *decay = at(io_.log_decay, span_.first + t);
      raise(row, level, row);
      for (std::int64_t l = 0; l < r(); ++l) decay[l] = level[l] == kNone ? R{0} : (level[l] - row[l]) / unit_;
      level = row;
    }
    for (std::int64_t l = 0; l < r(); ++l)
      io_.state_out.data<R>()[sums_ + l] = level[l] == kNone ? R{0} : std::exp2(level[l] - shift_);
  }

 private:
  static constexpr R kNone = std::numeric_limits<R>::lowest();

  std::int64_t heads() const { return io_.levels.rows.dim(1); }
  std::int64_t r() const { return io_.levels.rows.dim(2); }
  R* at(const Tensor& x, std::int64_t row) const { return x.data<R>() + (row * heads() + head_) * r(); }

  // Before the first row: the logarithm of what the state holds.
  void begin(R* level) const {
    const std::int64_t width = io_.state.defined() ? io_.state.dim(3) : 0;
    for (std::int64_t l = 0; l < r(); ++l) {
      const R sum = width > 0 ? io_.state.data<R>()[(sums_ + l + 1) * width - 1] : R{0};
      level[l] = sum > 0 ? shift_ + std::log2(std::max(sum, std::numeric_limits<R>::min())) : kNone;
    }
  }
  // The larger of both, NaN stays with its row.
  void raise(const R* own, const R* before, R* to) const {
    for (std::int64_t l = 0; l < r(); ++l) to[l] = own[l] > before[l] ? own[l] : before[l];
  }

  const kernels::LevelTensors& io_;
  const FeatureLevels::Span& span_;
  std::int64_t sums_, head_;
  R unit_, shift_;
};

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

cpu::FeatureForward cpu::prepared(const Context& context, const kernels::FeatureForward& io) {
  FeatureForward rows{describe(*io.options, io.x, io.directions), io.y};
  rows.in.directions = pack(context, io.directions, true, feature_unit(io.options->map));
  rows.in.count = io.directions.dim(1);
  rows.in.gain = io.gain;
  rows.in.weight = io.weight;
  rows.in.peaks = io.peaks;
  return rows;
}

cpu::FeatureBackward cpu::prepared(const Context& context, const kernels::FeatureBackward& io) {
  FeatureBackward rows{describe(*io.options, io.x, io.directions), io.y, io.dy, io.dx, io.d_weight, {}};
  rows.in.directions = pack(context, io.directions, false, 1.0);
  rows.in.count = io.directions.dim(1);
  rows.in.gain = io.gain;
  rows.in.weight = io.weight;
  rows.in.tops = io.tops;
  rows.in.peaks = io.peaks;
  return rows;
}

template <>
void kernels::features<Device::cpu>(const Context& context, const FeatureForward& io) {
  const FeatureOptions& options = *io.options;
  const std::vector<FeatureTask> tasks = tasks_of(options.rows, io.x.dim(2));
  cpu::FeatureForward rows = cpu::prepared(context, io);
  if (io.tops.defined()) rows.in.tops = spread(context, row_tops(context, rows.in, tasks, io.tops), options.rows);
  for_tasks(context, rows.in, tasks.size(),
            [&](std::size_t i, Room scratch) { cpu::feature_rows(rows, tasks[i], scratch); });
}

template <>
void kernels::find_fading<Device::cpu>(const Context& context, const FadingRows& io) {
  const cpu::FeatureRows in = describe(*io.options, io.x, io.directions);
  parallel_for(context, io.first.numel(), [&](std::int64_t s) {
    io.first.data<std::int64_t>()[s] = first_fading(in, io.options->rows[static_cast<std::size_t>(s)]);
  });
}

template <>
void kernels::find_levels<Device::cpu>(const Context& context, const LevelTensors& io) {
  const FeatureOptions& options = *io.options;
  const std::int64_t heads = io.x.dim(2), r = io.directions.dim(1), rows = io.x.dim(0) * io.x.dim(1);
  cpu::FeatureRows in = describe(options, io.x, io.directions);
  in.directions = pack(context, io.directions, true, cpu::feature_unit(options.map));
  in.count = r;
  const Tensor exponents = io.levels.in_order
                               ? io.levels.rows.slice(0, 0, rows)
                               : Tensor::empty(context, {rows, heads, r}, io.levels.rows.dtype(), Lifetime::scratch);
  const Tensor by_item = exponents.reshape({io.x.dim(0), io.x.dim(1), heads, r});
  const std::vector<FeatureTask> tasks = tasks_of(options.rows, heads);
  for_tasks(context, in, tasks.size(),
            [&](std::size_t i, Room scratch) { cpu::feature_exponents(in, tasks[i], by_item, scratch); });
  visit_wide(io.levels.rows.dtype(), [&]<class R>() {
    parallel_for(context, std::ssize(options.rows) * heads, [&](std::int64_t i) {
      const Sequences::Rows& of = options.rows[static_cast<std::size_t>(i / heads)];
      HeadLevels<R>(io, in.shift, i / heads, i % heads).settle(of.count, first_fading(in, of) < of.count, exponents);
    });
  });
}

template <>
void kernels::features_backward<Device::cpu>(const Context& context, const FeatureBackward& io) {
  const FeatureOptions& options = *io.options;
  const std::vector<FeatureTask> tasks = tasks_of(options.rows, io.x.dim(2));
  const DType wide = wide_type(io.x.dtype());
  cpu::FeatureBackward rows = cpu::prepared(context, io);
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
