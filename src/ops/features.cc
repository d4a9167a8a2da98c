#include "ops/features.h"

#include <cmath>

#include "core/scratch.h"
#include "ops/column_sum_cpu.h"
#include "ops/features_cpu.h"
#include "ops/sequence.h"
#include "ops/spans.h"
#include "ops/work.h"
#include "policy/math.h"
#include "simd/product.h"

namespace fovea {
namespace {

using cpu::FeatureTask;

enum Saved : std::size_t { kX, kDirections, kGain, kWeight, kTops, kPeaks, kY };

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

cpu::FeatureRows describe(const FeatureOptions& options, const Tensor& x) {
  cpu::FeatureRows in;
  in.map = options.map;
  in.scale = options.scale;
  in.size = options.size;
  in.add = options.add;
  in.unit = options.unit;
  in.subtract_norm = options.subtract_norm;
  in.stabilizer = options.stabilizer;
  in.pull_shift = options.pull_shift;
  in.shift = options.shift;
  in.x = x;
  return in;
}

// Exponentials leave the range of f16; waves have signs and nearly cancel in a sum.
DType feature_type(FeatureMap map, DType dtype) {
  return dtype == DType::f16 || map == FeatureMap::waves ? wide_type(dtype) : dtype;
}

// The largest u of each row, (b, n, heads).
Tensor row_tops(const Context& context, cpu::FeatureRows& in, const std::vector<FeatureTask>& tasks) {
  in.tops = Tensor::empty(context, {in.x.dim(0), in.x.dim(1), in.x.dim(2)}, wide_type(in.x.dtype()));
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

// Whether exponents of a head in the sequence may fall so low that nothing is left of their exponentials in f32: some
// |z|^2 / 2 is beyond this, and no product with a direction makes up for more of it than |w|^2 / 2.
bool fades(const Tensor& x, const Sequences::Rows& rows, std::int64_t head, double scale) {
  constexpr double kFaint = 30.0;
  return visit_float(x.dtype(), [&]<class T>() {
    for (std::int64_t i = rows.begin; i < rows.begin + rows.count; ++i) {
      const T* row = x.data<T>() + rows.batch * x.stride(0) + i * x.stride(1) + head * x.stride(2);
      const std::int64_t d = x.dim(3);
      Wide<T> squares = 0;
#pragma omp simd reduction(+ : squares)
      for (std::int64_t c = 0; c < d; ++c) squares += static_cast<Wide<T>>(row[c]) * static_cast<Wide<T>>(row[c]);
      if (!(0.5 * scale * scale * static_cast<double>(squares) <= kFaint)) return true;
    }
    return false;
  });
}

// c of each row for Stabilizer::rescue, (b, n, heads). What is common to a sequence does not depend on its neighbours.
Tensor rescuing_tops(const Context& context, cpu::FeatureRows& in, const std::vector<Sequences::Rows>& sequences) {
  const std::int64_t heads = in.x.dim(2);
  std::vector<std::uint8_t> faint(sequences.size() * static_cast<std::size_t>(heads));
  parallel_for(context, std::ssize(faint), [&](std::int64_t i) {
    faint[static_cast<std::size_t>(i)] =
        fades(in.x, sequences[static_cast<std::size_t>(i / heads)], i % heads, in.scale);
  });
  if (std::find(faint.begin(), faint.end(), 1) == faint.end()) return {};
  const Tensor tops = spread(context, row_tops(context, in, tasks_of(sequences, heads)), sequences);
  visit_wide(tops.dtype(), [&]<class R>() {
    for (std::size_t i = 0; i < faint.size(); ++i) {
      const auto& [batch, begin, count] = sequences[i / static_cast<std::size_t>(heads)];
      R* c = tops.data<R>() + (batch * tops.dim(1) + begin) * heads + static_cast<std::int64_t>(i) % heads;
      const auto shift = static_cast<R>(in.shift * cpu::feature_unit(in.map));
      for (std::int64_t row = 0; faint[i] == 0 && row < count; ++row) c[row * heads] = shift;
    }
  });
  return tops;
}

// Gradient of c = max u: given to the direction and the row that have it. dz -= (sum of the rows' sums) W_l.
template <class T>
void pull_tops(const cpu::FeatureBackward& io, const Tensor& directions, const Sequences::Rows& rows) {
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
Tensor fold_gain(const Context& context, const Tensor& shares, const std::vector<FeatureTask>& tasks,
                 std::int64_t groups, std::int64_t heads) {
  const std::int64_t d = shares.dim(1);
  const Tensor sum = Tensor::zeros(context, {groups, d}, shares.dtype());
  visit_wide(shares.dtype(), [&]<class R>() {
    for (std::size_t i = 0; i < tasks.size(); ++i)
      for (std::int64_t c = 0; c < d; ++c)
        sum.data<R>()[tasks[i].head * groups / heads * d + c] += shares.data<R>()[static_cast<std::int64_t>(i) * d + c];
  });
  return sum;
}

void backward(Tape& tape, Node& node) {
  const Context& context = tape.context();
  const auto& options = std::any_cast<const FeatureOptions&>(node.attributes);
  const std::vector<Tensor>& saved = node.saved;
  const Tensor& x = saved[kX];
  const std::vector<FeatureTask> tasks = tasks_of(options.rows, x.dim(2));
  cpu::FeatureBackward io;
  io.in = describe(options, x);
  io.in.directions = pack(context, saved[kDirections], false, 1.0);
  io.in.count = saved[kDirections].dim(1);
  io.in.gain = saved[kGain];
  io.in.weight = saved[kWeight];
  io.in.tops = saved[kTops];
  io.in.peaks = saved[kPeaks];
  io.y = saved[kY];
  io.dy = node.grad().contiguous(context);
  io.dx = tape.room(node.inputs[0], x.shape(), x.dtype());
  const Shape rows{x.dim(0), x.dim(1), x.dim(2)};
  if (!covers(options.rows, x.shape())) io.dx.fill(0.0);
  if (node.wants(2)) io.d_weight = Tensor::zeros(context, rows, wide_type(x.dtype()));
  if (saved[kTops].defined() && options.pull_shift)
    io.sums = Tensor::empty(context, rows, wide_type(x.dtype()), Lifetime::scratch);
  const std::int64_t d = x.dim(3);
  const Tensor shares = node.wants(1) ? Tensor::zeros(context, {std::ssize(tasks), d}, wide_type(x.dtype())) : Tensor();
  for_tasks(context, io.in, tasks.size(), [&](std::size_t i, Room scratch) {
    void* share = shares.defined() ? shares.select(0, static_cast<std::int64_t>(i)).raw() : nullptr;
    cpu::pull_feature_rows(io, tasks[i], share, scratch);
  });
  if (io.sums.defined())
    for (const Sequences::Rows& sequence : options.rows)
      if (sequence.count > 0)
        visit_float(x.dtype(), [&]<class T>() { pull_tops<T>(io, saved[kDirections], sequence); });
  tape.accumulate(node.inputs[0], io.dx);
  if (node.wants(1))
    tape.accumulate(node.inputs[1], fold_gain(context, shares, tasks, saved[kDirections].dim(0), x.dim(2)));
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
  const Tensor in = dense_rows(context, x.value());
  const Tensor dense = directions.contiguous(context);
  cpu::FeatureForward io;
  io.in = describe(options, in);
  io.in.directions = pack(context, dense, true, cpu::feature_unit(options.map));
  io.in.count = directions.dim(1);
  if (options.gain.defined()) io.in.gain = options.gain.value().to(context, wide_type(in.dtype())).contiguous(context);
  if (options.weight.defined()) io.in.weight = options.weight.value().contiguous(context);
  const std::int64_t outputs = directions.dim(1) * (options.map == FeatureMap::waves ? 2 : 1);
  io.y = Tensor::empty(context, in.shape().with(3, outputs), feature_type(options.map, in.dtype()));
  if (!covers(options.rows, in.shape())) io.y.fill(0.0);
  const std::vector<FeatureTask> tasks = tasks_of(options.rows, in.dim(2));
  if (options.pull_shift) io.in.peaks = Tensor::empty(context, {in.dim(0), in.dim(1), in.dim(2)}, DType::i32);
  Tensor tops;
  if (options.map == FeatureMap::exponential && options.stabilizer == Stabilizer::sequence) {
    tops = row_tops(context, io.in, tasks);
    io.in.tops = spread(context, tops, options.rows);
  }
  if (options.stabilizer == Stabilizer::rescue) io.in.tops = rescuing_tops(context, io.in, options.rows);
  for_tasks(context, io.in, tasks.size(),
            [&](std::size_t i, Room scratch) { cpu::feature_rows(io, tasks[i], scratch); });
  FeatureOptions attributes = options;
  attributes.gain = attributes.weight = {};
  return tape.record(kFeatures, {x, options.gain, options.weight}, io.y,
                     {in, dense, io.in.gain, io.in.weight, tops, io.in.peaks, io.y}, std::move(attributes));
}

}  // namespace fovea
