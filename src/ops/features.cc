#include "ops/features.h"

#include <cmath>

#include "core/scratch.h"
#include "ops/column_sum_cpu.h"
#include "ops/features_cpu.h"
#include "ops/spans.h"
#include "ops/work.h"
#include "policy/math.h"
#include "simd/product.h"

namespace fovea {
namespace {

using cpu::FeatureTask;

struct Attributes {
  FeatureOptions options;
  Shape directions;
};
enum Saved : std::size_t { kX, kDirections, kGain, kWeight, kTops, kY };

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
  const auto tasks = static_cast<std::int64_t>(count), size = cpu::feature_scratch(in);
  const int threads = static_cast<int>(std::clamp<std::int64_t>(tasks, 1, context.threads()));
  visit_wide(in.x.dtype(), [&]<class R>() {
    const Scratch<R> scratch(context, static_cast<std::size_t>(size * threads));
    parallel(threads, [&](const Team& team) {
      for (std::int64_t i = team.take(); i < tasks; i = team.take())
        body(static_cast<std::size_t>(i), scratch.data() + team.rank() * size);
    });
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
  in.shift = options.shift;
  in.x = x;
  return in;
}

// Exponentials leave the range of f16; waves have signs and nearly cancel in a sum.
DType feature_type(FeatureMap map, DType dtype) {
  return dtype == DType::f16 || map == FeatureMap::waves ? wide(dtype) : dtype;
}

bool covers(const std::vector<Sequences::Rows>& rows, const Tensor& x) {
  std::int64_t covered = 0;
  for (const Sequences::Rows& r : rows) covered += r.count;
  return covered == x.dim(0) * x.dim(1);
}

// The largest u of a sequence and head, in place of that of each row.
template <class R>
void spread_tops(const Tensor& tops, const Sequences::Rows& rows) {
  const std::int64_t heads = tops.dim(2);
  R* from = tops.data<R>() + (rows.batch * tops.dim(1) + rows.begin) * heads;
  for (std::int64_t h = 0; h < heads; ++h) {
    R top = -math::kInfinity<R>;
    for (std::int64_t i = 0; i < rows.count; ++i) top = std::max(top, from[i * heads + h]);
    for (std::int64_t i = 0; i < rows.count; ++i) from[i * heads + h] = top;
  }
}

// Gradient of c = max u: given to the direction and the row that have it. dz -= (sum of the rows' sums) W_l.
template <class T>
void pull_tops(const cpu::FeatureBackward& io, const Tensor& directions, const Sequences::Rows& rows) {
  using R = Wide<T>;
  using Y = std::conditional_t<std::is_same_v<T, f16>, float, T>;
  const std::int64_t heads = io.y.dim(2), r = io.in.count, d = directions.dim(2), group = heads / directions.dim(0);
  const std::int64_t first = rows.batch * io.y.dim(1) + rows.begin;
  for (std::int64_t h = 0; h < heads; ++h) {
    R total = 0;
    std::int64_t at = 0, most = 0;
    double top = -math::kInfinity<double>;
    for (std::int64_t i = 0; i < rows.count; ++i) {
      total += io.sums.data<R>()[(first + i) * heads + h];
      const double u = io.in.tops.data<R>()[(first + i) * heads + h];
      if (u > top) top = u, at = i;
    }
    const Y* y = io.y.data<Y>() + ((first + at) * heads + h) * r;
    most = std::max_element(y, y + r, [](Y a, Y b) { return static_cast<R>(a) < static_cast<R>(b); }) - y;
    T* dx = io.dx.data<T>() + rows.batch * io.dx.stride(0) + (rows.begin + at) * io.dx.stride(1) + h * io.dx.stride(2);
    const R* direction = directions.data<R>() + (h / group * r + most) * d;
    for (std::int64_t c = 0; c < d; ++c)
      dx[c] = T(static_cast<R>(dx[c]) - total * direction[c] * static_cast<R>(io.in.scale));
  }
}

// Shares of the tasks (tasks, d) summed for each group, in order.
Tensor fold_gain(const Context& context, const Tensor& shares, const std::vector<FeatureTask>& tasks,
                 const Attributes& attributes, std::int64_t heads) {
  const std::int64_t groups = attributes.directions[0], d = attributes.directions[2];
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
  const auto& attributes = std::any_cast<const Attributes&>(node.attributes);
  const FeatureOptions& options = attributes.options;
  const std::vector<Tensor>& saved = node.saved;
  const Tensor& x = saved[kX];
  const std::vector<FeatureTask> tasks = tasks_of(options.rows, x.dim(2));
  cpu::FeatureBackward io;
  io.in = describe(options, x);
  io.in.directions = pack(context, saved[kDirections], false, 1.0);
  io.in.count = attributes.directions[1];
  io.in.gain = saved[kGain];
  io.in.weight = saved[kWeight];
  io.in.tops = saved[kTops];
  io.y = saved[kY];
  io.dy = node.grad().contiguous(context);
  io.dx = tape.room(node.inputs[0], x.shape(), x.dtype());
  const Shape rows{x.dim(0), x.dim(1), x.dim(2)};
  if (!covers(options.rows, x)) io.dx.fill(0.0);
  if (node.wants(2)) io.d_weight = Tensor::zeros(context, rows, wide(x.dtype()));
  if (saved[kTops].defined()) io.sums = Tensor::empty(context, rows, wide(x.dtype()), Lifetime::scratch);
  const std::int64_t d = x.dim(3);
  const Tensor shares = node.wants(1) ? Tensor::zeros(context, {std::ssize(tasks), d}, wide(x.dtype())) : Tensor();
  for_tasks(context, io.in, tasks.size(), [&](std::size_t i, void* scratch) {
    void* share = shares.defined() ? shares.select(0, static_cast<std::int64_t>(i)).raw() : nullptr;
    cpu::pull_feature_rows(io, tasks[i], share, scratch);
  });
  if (saved[kTops].defined())
    for (const Sequences::Rows& sequence : options.rows)
      if (sequence.count > 0)
        visit_float(x.dtype(), [&]<class T>() { pull_tops<T>(io, saved[kDirections], sequence); });
  tape.accumulate(node.inputs[0], io.dx);
  if (node.wants(1)) tape.accumulate(node.inputs[1], fold_gain(context, shares, tasks, attributes, x.dim(2)));
  if (node.wants(2)) tape.accumulate(node.inputs[2], io.d_weight);
}

constexpr Op kFeatures{"features", backward};

void check(const Var& x, const Tensor& directions, const FeatureOptions& options) {
  if (x.value().rank() != 4) fail(ErrorCode::shape, "features of shape " + x.shape().text(), {}, "(b, n, heads, d)");
  if (directions.rank() != 3 || directions.dim(2) != x.dim(3) || directions.dim(0) == 0 || directions.dim(1) == 0 ||
      x.dim(2) % directions.dim(0) != 0 || directions.dtype() != wide(x.dtype()))
    fail(ErrorCode::shape, "directions " + directions.shape().text() + " for x of shape " + x.shape().text(),
         "directions", "(groups, directions, d), f32 (f64)");
  if (options.gain.defined() && options.gain.shape() != Shape{directions.dim(0), x.dim(3)})
    fail(ErrorCode::shape, "gain of shape " + options.gain.shape().text(), "gain", "(groups, d)");
  if (options.weight.defined() &&
      (options.weight.shape() != Shape{x.dim(0), x.dim(1), x.dim(2)} || options.weight.dtype() != wide(x.dtype())))
    fail(ErrorCode::shape, "weight of shape " + options.weight.shape().text(), "weight", "(b, n, heads), f32 (f64)");
}

}  // namespace

Var features(Tape& tape, const Var& given, const Tensor& directions, const FeatureOptions& options) {
  check(given, directions, options);
  const Context& context = tape.context();
  const Tensor x = given.value().stride(3) == 1 || given.dim(3) == 1 ? given.value() : given.value().clone(context);
  const Tensor dense = directions.contiguous(context);
  const bool exponential = options.map == FeatureMap::exponential;
  cpu::FeatureForward io;
  io.in = describe(options, x);
  io.in.directions = pack(context, dense, true, exponential ? math::kLog2e<double> : 1.0);
  io.in.count = directions.dim(1);
  if (options.gain.defined()) io.in.gain = options.gain.value().to(context, wide(x.dtype())).contiguous(context);
  if (options.weight.defined()) io.in.weight = options.weight.value().contiguous(context);
  const std::int64_t outputs = directions.dim(1) * (options.map == FeatureMap::waves ? 2 : 1);
  io.y = Tensor::empty(context, x.shape().with(3, outputs), feature_type(options.map, x.dtype()));
  if (!covers(options.rows, x)) io.y.fill(0.0);
  const std::vector<FeatureTask> tasks = tasks_of(options.rows, x.dim(2));
  Tensor tops;
  if (exponential && options.stabilizer == Stabilizer::sequence) {
    io.in.tops = Tensor::empty(context, {x.dim(0), x.dim(1), x.dim(2)}, wide(x.dtype()));
    for_tasks(context, io.in, tasks.size(),
              [&](std::size_t i, void* scratch) { cpu::feature_tops(io.in, tasks[i], scratch); });
    if (tape.wants_grad({given})) tops = io.in.tops.clone(context);
    for (const Sequences::Rows& rows : options.rows)
      visit_wide(x.dtype(), [&]<class R>() { spread_tops<R>(io.in.tops, rows); });
  }
  for_tasks(context, io.in, tasks.size(),
            [&](std::size_t i, void* scratch) { cpu::feature_rows(io, tasks[i], scratch); });
  Attributes attributes{options, dense.shape()};
  attributes.options.gain = attributes.options.weight = {};
  return tape.record(kFeatures, {given, options.gain, options.weight}, io.y,
                     {x, dense, io.in.gain, io.in.weight, tops, io.y}, std::move(attributes));
}

}  // namespace fovea
