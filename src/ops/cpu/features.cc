#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/cpu/features.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep

#include <algorithm>
#include <cmath>

#include "core/wide.h"
#include "hwy/highway.h"
#include "ops/cpu/feature_scratch.h"
#include "ops/cpu/features.h"
#include "policy/sine_cosine.h"
#include "simd/matrix.h"
#include "simd/product-inl.h"

HWY_BEFORE_NAMESPACE();
namespace fovea {
namespace HWY_NAMESPACE {
namespace {

using cpu::FeatureScratch;
using cpu::kFeatureBlock;

// z = factor x; gives |z|^2.
template <class T, class R>
R load(const T* HWY_RESTRICT x, R factor, R* HWY_RESTRICT z, std::int64_t d) {
  for (std::int64_t c = 0; c < d; ++c) z[c] = static_cast<R>(x[c]) * factor;
  const hn::ScalableTag<R> tag;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(tag));
  auto squares = hn::Zero(tag);
  std::int64_t c = 0;
  for (; c + lanes <= d; c += lanes) {
    const auto part = hn::LoadU(tag, z + c);
    squares = hn::MulAdd(part, part, squares);
  }
  R sum = hn::GetLane(hn::SumOfLanes(tag, squares));
  for (; c < d; ++c) sum += z[c] * z[c];
  return sum;
}

template <class R>
void times(const R* HWY_RESTRICT factor, R* HWY_RESTRICT z, std::int64_t d) {
  for (std::int64_t c = 0; c < d; ++c) z[c] *= factor[c];
}

// Element offset of row i and the task's head in a dense (b, n, heads) array.
std::int64_t row_index(const Tensor& x, const cpu::FeatureTask& task, std::int64_t i) {
  return (task.batch * x.dim(1) + i) * x.dim(2) + task.head;
}
template <class T>
T* row_of(const Tensor& x, const cpu::FeatureTask& task, std::int64_t i) {
  return x.data<T>() + task.batch * x.stride(0) + i * x.stride(1) + task.head * x.stride(2);
}
std::int64_t group_of(const cpu::FeatureRows& in, const cpu::FeatureTask& task) {
  return task.head * in.directions.dim(0) / in.x.dim(2);
}

// z of rows [begin, end), without the gain.
template <class T, class R>
void load_rows(const cpu::FeatureRows& in, const cpu::FeatureTask& rows, const FeatureScratch<R>& s) {
  const T* x = row_of<T>(in.x, rows, rows.begin);
  const R scale = static_cast<R>(in.scale);
  for (std::int64_t i = rows.begin; i < rows.end; ++i, x += in.x.stride(1)) {
    const auto at = static_cast<std::size_t>(i - rows.begin);
    const R squares = load(x, in.unit ? R{1} : scale, s.z.row(at), s.d);
    s.half_norm[at] = squares / 2;
    s.length[at] = std::sqrt(squares);
    if (!in.unit) continue;
    const R factor = scale / (s.length[at] + static_cast<R>(cpu::kUnitEps));
    for (std::int64_t c = 0; c < s.d; ++c) s.z.row(at)[c] *= factor;
  }
}

template <class R>
const R* directions_of(const cpu::FeatureRows& in, const cpu::FeatureTask& task) {
  return in.directions.data<R>() + group_of(in, task) * in.directions.stride(0);
}

// About how many register tiles a product of m x n takes.
std::size_t tiles(std::size_t m, std::size_t n) { return m * n / 256; }
template <class R>
std::size_t forward_tiles(const FeatureScratch<R>& s) {
  return tiles(kFeatureBlock, s.u.ld);
}

// u = z W^T of the rows; `next` is fetched meanwhile.
template <class T, class R>
void project(const cpu::FeatureRows& in, const cpu::FeatureTask& rows, const FeatureScratch<R>& s, Prefetch* next) {
  load_rows<T>(in, rows, s);
  const auto m = static_cast<std::size_t>(rows.end - rows.begin);
  if (in.gain.defined())
    for (std::size_t i = 0; i < m; ++i) times(in.gain.data<R>() + group_of(in, rows) * s.d, s.z.row(i), s.d);
  product<Order::rows>(Product<R>{s.z.data, s.z.ld, directions_of<R>(in, rows), s.u.ld, s.u.data, s.u.ld, m, s.u.ld,
                                  static_cast<std::size_t>(s.d), next},
                       StartZero{});
}

template <class R>
R largest(const R* HWY_RESTRICT u, std::int64_t count) {
  R top = u[0];
#pragma omp simd reduction(max : top)
  for (std::int64_t l = 0; l < count; ++l) top = u[l] > top ? u[l] : top;
  return top;
}

// What a feature is multiplied with, and what is added then.
template <class R>
struct Affine {
  R size, add;
};

// y may be u.
template <class R>
HWY_FLATTEN void exponentials(const R* u, R c, Affine<R> after, R* y, std::int64_t r) {
#pragma omp simd
  for (std::int64_t l = 0; l < r; ++l) y[l] = after.size * math::exp2_low(u[l] - c) + after.add;
}
template <class R>
HWY_FLATTEN void rectified(const R* u, Affine<R> after, R* y, std::int64_t r) {
#pragma omp simd
  for (std::int64_t l = 0; l < r; ++l) y[l] = after.size * (u[l] < 0 ? R{0} : u[l]) + after.add;
}
template <class R>
HWY_FLATTEN void waves(const R* HWY_RESTRICT u, R size, R* HWY_RESTRICT y, std::int64_t r) {
  R* HWY_RESTRICT cosines = y + r;
  for (std::int64_t l = 0; l < r; ++l) {
    const math::SineCosine<R> wave = math::sine_cosine(u[l]);
    y[l] = size * wave.sine;
    cosines[l] = size * wave.cosine;
  }
}

// u of a row with the levels taken off, or added where it is a query's.
template <class R>
HWY_FLATTEN void apply_levels(const cpu::FeatureRows& in, const cpu::FeatureTask& task, std::int64_t row,
                              R* HWY_RESTRICT u) {
  const FeatureLevels::Span& span = in.levels.spans[static_cast<std::size_t>(task.sequence)];
  const Tensor& of = in.levels.rows;
  const std::int64_t at = cpu::level_row(span, in.levels.in_order, row - task.origin),
                     head = task.head * of.dim(1) / in.x.dim(2);
  const R* HWY_RESTRICT level = of.data<R>() + (at * of.dim(1) + head) * of.dim(2);
  const R sign = in.stabilizer == Stabilizer::level ? R{-1} : R{1};
  for (std::int64_t l = 0; l < in.count; ++l) u[l] += sign * level[l];
}

// c of a row, with what else is subtracted from u.
template <class R>
R shift_of(const cpu::FeatureRows& in, const R* u, std::int64_t index, R half_norm) {
  const R unit = static_cast<R>(cpu::feature_unit(in.map));
  R c = static_cast<R>(in.shift) * unit;
  if (in.stabilizer == Stabilizer::row) c = largest(u, in.count);
  if (in.tops.defined()) c = in.tops.data<R>()[index];
  return in.subtract_norm ? c + half_norm * unit : c;
}

template <class R>
void finish_row(const cpu::FeatureRows& in, const R* u, std::int64_t index, R half_norm, R* y) {
  const R weight = in.weight.defined() ? in.weight.data<R>()[index] : R{1};
  const Affine<R> after{static_cast<R>(in.size) * weight, static_cast<R>(in.add) * weight};
  switch (in.map) {
    case FeatureMap::exponential: return exponentials(u, shift_of(in, u, index, half_norm), after, y, in.count);
    case FeatureMap::relu: return rectified(u, after, y, in.count);
    case FeatureMap::waves: return waves(u, after.size, y, in.count);
  }
}

// Announces rows [begin, end) of the task's item and head.
void fetch_rows(const Tensor& x, const cpu::FeatureTask& task, std::int64_t begin, std::int64_t end, Prefetch& next) {
  const std::size_t size = size_of(x.dtype());
  const std::int64_t first = task.batch * x.stride(0) + begin * x.stride(1) + task.head * x.stride(2);
  next.add(static_cast<const std::byte*>(x.raw()) + static_cast<std::size_t>(first) * size,
           static_cast<std::size_t>(x.dim(3)) * size, static_cast<std::size_t>(x.stride(1)) * size,
           static_cast<std::size_t>(end - begin));
}

// body(a block of the task's rows, those of `arrays` that the next block reads), in so many register tiles.
template <class Body>
void for_blocks_of(const cpu::FeatureTask& task, std::initializer_list<const Tensor*> arrays, std::size_t calls,
                   const Body& body) {
  for (std::int64_t i = task.begin; i < task.end; i += kFeatureBlock) {
    const std::int64_t end = std::min(task.end, i + kFeatureBlock), following = std::min(task.end, end + kFeatureBlock);
    Prefetch next;
    for (const Tensor* x : arrays) fetch_rows(*x, task, end, following, next);
    next.spread(calls);
    cpu::FeatureTask block = task;
    block.begin = i;
    block.end = end;
    body(block, &next);
  }
}

// Features of long sequences are read again only after the caches have seen all of them: they are written past them.
template <class Y>
bool streams(const Tensor& y) {
  constexpr std::int64_t kLarge = std::int64_t{8} << 20;
  constexpr std::int64_t kVector = hn::MaxLanes(hn::ScalableTag<Y>());
  return y.numel() * static_cast<std::int64_t>(sizeof(Y)) > kLarge && y.dim(3) % kVector == 0 &&
         reinterpret_cast<std::uintptr_t>(y.raw()) % (kVector * sizeof(Y)) == 0;
}
template <class R>
HWY_NOINLINE void stream_row(const R* HWY_RESTRICT from, R* HWY_RESTRICT to, std::int64_t count) {
  const hn::ScalableTag<R> d;
  for (std::int64_t l = 0; l < count; l += static_cast<std::int64_t>(hn::Lanes(d)))
    hn::Stream(hn::LoadU(d, from + l), d, to + l);
}

// row(i, its place in the scratch, the scratch) for the rows of a task, whose u is there then.
template <class T, class Row>
void each_projected(const cpu::FeatureRows& in, const cpu::FeatureTask& task, Room scratch, const Row& row) {
  const FeatureScratch<Wide<T>> s(in, scratch);
  for_blocks_of(task, {&in.x}, forward_tiles(s), [&](const cpu::FeatureTask& rows, Prefetch* next) {
    project<T>(in, rows, s, next);
    for (std::int64_t i = rows.begin; i < rows.end; ++i) row(i, static_cast<std::size_t>(i - rows.begin), s);
  });
}

template <class T, class Y>
void forward_typed(const cpu::FeatureForward& io, const cpu::FeatureTask& task, Room scratch) {
  using R = Wide<T>;
  const bool past_caches = streams<Y>(io.y);
  each_projected<T>(io.in, task, scratch, [&](std::int64_t i, std::size_t at, const FeatureScratch<R>& s) {
    Y* out = row_of<Y>(io.y, task, i);
    const std::int64_t index = row_index(io.y, task, i);
    if (io.in.peaks.defined())
      io.in.peaks.data<std::int32_t>()[index] =
          static_cast<std::int32_t>(std::max_element(s.u.row(at), s.u.row(at) + s.r) - s.u.row(at));
    if (io.in.levels.defined()) apply_levels(io.in, task, i, s.u.row(at));
    if constexpr (std::is_same_v<Y, R>) {
      finish_row(io.in, s.u.row(at), index, s.half_norm[at], past_caches ? s.y : out);
      if (past_caches) stream_row(s.y, out, s.outputs);
    } else {
      finish_row(io.in, s.u.row(at), index, s.half_norm[at], s.y);
      for (std::int64_t l = 0; l < s.outputs; ++l) out[l] = Y(s.y[l]);
    }
  });
}

template <class T>
void tops_typed(const cpu::FeatureRows& in, const cpu::FeatureTask& task, Room scratch) {
  using R = Wide<T>;
  each_projected<T>(in, task, scratch, [&](std::int64_t i, std::size_t at, const FeatureScratch<R>& s) {
    in.tops.data<R>()[row_index(in.x, task, i)] = largest(s.u.row(at), s.r);
  });
}

template <class T>
void exponents_typed(const cpu::FeatureRows& in, const cpu::FeatureTask& task, const Tensor& out, Room scratch) {
  using R = Wide<T>;
  each_projected<T>(in, task, scratch, [&](std::int64_t i, std::size_t at, const FeatureScratch<R>& s) {
    const R norm = s.half_norm[at] * static_cast<R>(cpu::feature_unit(in.map));
    R* to = row_of<R>(out, task, i);
    for (std::int64_t l = 0; l < s.r; ++l) to[l] = s.u.row(at)[l] - norm;
  });
}

// The same as forward_typed, where features are of R: those of a block, and a copy in io.y if that is wanted.
template <class R>
void block_typed(const cpu::FeatureForward& io, const cpu::FeatureTask& rows, Matrix<R> to,
                 const cpu::BlockRoom& room) {
  FeatureScratch<R> s(io.in, room.scratch);
  s.u = to;
  project<R>(io.in, rows, s, room.next);
  const bool copies = io.y.defined(), past_caches = copies && streams<R>(io.y);
  for (std::int64_t i = rows.begin; i < rows.end; ++i) {
    const auto at = static_cast<std::size_t>(i - rows.begin);
    R* const y = to.row(at);
    finish_row(io.in, y, row_index(io.in.x, rows, i), s.half_norm[at], y);
    if (!copies) continue;
    R* const out = row_of<R>(io.y, rows, i);
    past_caches ? stream_row(y, out, s.outputs) : static_cast<void>(std::copy_n(y, s.outputs, out));
  }
}

// A row of features and its gradient; `floor` is what a feature of 0 looks like after rounding. du may be dy.
template <class R>
struct VjpRow {
  const R *y, *dy;
  R size, floor;
  R* du;
};

template <class R>
R vjp_exponentials(const VjpRow<R>& row, std::int64_t r) {
  const R *y = row.y, *dy = row.dy;
  R* du = row.du;
  const R floor = row.floor;
  R total = 0;
#pragma omp simd reduction(+ : total)
  for (std::int64_t l = 0; l < r; ++l) {
    du[l] = (y[l] - floor) * dy[l];
    total += du[l];
  }
  return total;
}
template <class R>
void vjp_rectified(const VjpRow<R>& row, std::int64_t r) {
  const R *y = row.y, *dy = row.dy;
  R* du = row.du;
  const R floor = row.floor, size = row.size;
#pragma omp simd
  for (std::int64_t l = 0; l < r; ++l) du[l] = y[l] > floor ? size * dy[l] : R{0};
}
template <class R>
void vjp_waves(const VjpRow<R>& row, std::int64_t r) {
  const R *HWY_RESTRICT y = row.y, *HWY_RESTRICT dy = row.dy;
  R* HWY_RESTRICT du = row.du;
  for (std::int64_t l = 0; l < r; ++l) du[l] = y[r + l] * dy[l] - y[l] * dy[r + l];
}

template <class R>
R dot(const R* HWY_RESTRICT a, const R* HWY_RESTRICT b, std::int64_t count) {
  R sum = 0;
#pragma omp simd reduction(+ : sum)
  for (std::int64_t c = 0; c < count; ++c) sum += a[c] * b[c];
  return sum;
}

// du of one row; the sum that |z|^2 / 2 and c receive.
template <class Y, class R>
R vjp_row(const cpu::FeatureBackward& io, std::int64_t index, VjpRow<R> row) {
  const cpu::FeatureRows& in = io.in;
  const R weight = in.weight.defined() ? in.weight.data<R>()[index] : R{1};
  row.size = static_cast<R>(in.size) * weight;
  row.floor = static_cast<R>(Y(static_cast<R>(in.add) * weight));
  if (io.d_weight.defined()) {
    const R sum = dot(row.y, row.dy, io.y.dim(3));
    io.d_weight.data<R>()[index] = weight == 0 ? R{0} : sum / weight;
  }
  if (in.map == FeatureMap::relu) vjp_rectified(row, in.count);
  if (in.map == FeatureMap::waves) vjp_waves(row, in.count);
  if (in.map != FeatureMap::exponential) return R{0};
  const R total = vjp_exponentials(row, in.count);
  if (!in.pull_shift) return total;
  if (in.stabilizer == Stabilizer::row) row.du[in.peaks.data<std::int32_t>()[index]] -= total;
  if (in.stabilizer == Stabilizer::sequence) io.sums.data<R>()[index] = total;
  return total;
}

template <class Y, class R>
const R* read_row(const Y* from, R* buffer, std::int64_t count) {
  if constexpr (std::is_same_v<Y, R>) {
    return from;
  } else {
    for (std::int64_t l = 0; l < count; ++l) buffer[l] = static_cast<R>(from[l]);
    return buffer;
  }
}

// dx of one row from the gradient of gain * z.
template <class R>
struct VjpInput {
  const R *z, *gain;  // gain: null for none
  R *dz, *d_gain;     // d_gain: null if not wanted
  R total, length;
};

template <class T, class R>
void vjp_input(const cpu::FeatureRows& in, const VjpInput<R>& row, T* HWY_RESTRICT dx) {
  const R* HWY_RESTRICT z = row.z;
  R* HWY_RESTRICT dz = row.dz;
  const std::int64_t d = in.x.dim(3);
  if (row.d_gain != nullptr)
    for (std::int64_t c = 0; c < d; ++c) row.d_gain[c] += z[c] * dz[c];
  if (row.gain != nullptr) times(row.gain, dz, d);
  const R scale = static_cast<R>(in.scale);
  R factor = scale, along = in.subtract_norm ? row.total : R{0};
  if (in.unit) {
    const R whole = row.length + static_cast<R>(cpu::kUnitEps);
    factor = scale / whole;
    along = row.length > 0 ? dot(z, dz, d) * whole / (row.length * scale * scale) : R{0};
  }
  for (std::int64_t c = 0; c < d; ++c) dx[c] = T((dz[c] - z[c] * along) * factor);
}

// dx of a block from du, in s.u, and what half the norm of its rows receives, in s.total.
template <class T, class R>
void vjp_rows(const cpu::FeatureBackward& io, const cpu::FeatureTask& rows, const FeatureScratch<R>& s, R* d_gain,
              Prefetch* next) {
  const R* gain = io.in.gain.defined() ? io.in.gain.data<R>() + group_of(io.in, rows) * s.d : nullptr;
  const auto m = static_cast<std::size_t>(rows.end - rows.begin);
  product<Order::rows>(Product<R>{s.u.data, s.u.ld, directions_of<R>(io.in, rows), s.dz.ld, s.dz.data, s.dz.ld, m,
                                  s.dz.ld, static_cast<std::size_t>(s.r), next},
                       StartZero{});
  T* dx = row_of<T>(io.dx, rows, rows.begin);
  for (std::size_t at = 0; at < m; ++at, dx += io.dx.stride(1))
    vjp_input(io.in, VjpInput<R>{s.z.row(at), gain, s.dz.row(at), d_gain, s.total[at], s.length[at]}, dx);
}

template <class T, class Y>
void backward_typed(const cpu::FeatureBackward& io, const cpu::FeatureTask& task, void* d_gain, Room scratch) {
  using R = Wide<T>;
  const FeatureScratch<R> s(io.in, scratch);
  const std::size_t calls = tiles(kFeatureBlock, s.dz.ld);
  for_blocks_of(task, {&io.in.x, &io.y, &io.dy}, calls, [&](const cpu::FeatureTask& rows, Prefetch* next) {
    load_rows<T>(io.in, rows, s);
    for (std::int64_t i = rows.begin; i < rows.end; ++i) {
      const auto at = static_cast<std::size_t>(i - rows.begin);
      const R* y = read_row(row_of<Y>(io.y, rows, i), s.y, s.outputs);
      const R* dy = read_row(row_of<Y>(io.dy, rows, i), s.dy, s.outputs);
      s.total[at] = vjp_row<Y>(io, row_index(io.y, rows, i), VjpRow<R>{y, dy, 0, 0, s.u.row(at)});
    }
    vjp_rows<T>(io, rows, s, static_cast<R*>(d_gain), next);
  });
}

// The same for a block: dy becomes du.
template <class R>
void vjp_block_typed(const cpu::FeatureBackward& io, const cpu::FeatureTask& rows, const cpu::BlockGradient<R>& of,
                     const cpu::BlockRoom& room) {
  FeatureScratch<R> s(io.in, room.scratch);
  s.u = of.dy;
  load_rows<R>(io.in, rows, s);
  for (std::int64_t i = rows.begin; i < rows.end; ++i) {
    const auto at = static_cast<std::size_t>(i - rows.begin);
    R* const dy = of.dy.row(at);
    s.total[at] = vjp_row<R>(io, row_index(io.in.x, rows, i), VjpRow<R>{of.y.row(at), dy, 0, 0, dy});
  }
  vjp_rows<R>(io, rows, s, static_cast<R*>(nullptr), room.next);
}

void run_forward(const cpu::FeatureForward& io, const cpu::FeatureTask& task, Room scratch) {
  visit_float_or_wide(io.in.x.dtype(), io.y.dtype(),
                      [&]<class T, class Y>() { forward_typed<T, Y>(io, task, scratch); });
}
void run_tops(const cpu::FeatureRows& in, const cpu::FeatureTask& task, Room scratch) {
  visit_float(in.x.dtype(), [&]<class T>() { tops_typed<T>(in, task, scratch); });
}
void run_exponents(const cpu::FeatureRows& in, const cpu::FeatureTask& task, const Tensor& out, Room scratch) {
  visit_float(in.x.dtype(), [&]<class T>() { exponents_typed<T>(in, task, out, scratch); });
}
void run_backward(const cpu::FeatureBackward& io, const cpu::FeatureTask& task, void* d_gain, Room scratch) {
  visit_float_or_wide(io.in.x.dtype(), io.y.dtype(),
                      [&]<class T, class Y>() { backward_typed<T, Y>(io, task, d_gain, scratch); });
}

void run_block(const cpu::FeatureForward& io, const cpu::FeatureTask& rows, Matrix<float> to,
               const cpu::BlockRoom& room) {
  block_typed<float>(io, rows, to, room);
}
void run_vjp_block(const cpu::FeatureBackward& io, const cpu::FeatureTask& rows, const cpu::BlockGradient<float>& of,
                   const cpu::BlockRoom& room) {
  vjp_block_typed<float>(io, rows, of, room);
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace fovea
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace fovea {
namespace {

HWY_EXPORT(run_forward);
HWY_EXPORT(run_tops);
HWY_EXPORT(run_exponents);
HWY_EXPORT(run_backward);
HWY_EXPORT(run_block);
HWY_EXPORT(run_vjp_block);

}  // namespace

std::size_t cpu::feature_scratch_bytes(const FeatureRows& in) {
  return in.x.dtype() == DType::f64 ? FeatureScratch<double>(in, {}).bytes : FeatureScratch<float>(in, {}).bytes;
}

void cpu::feature_rows(const FeatureForward& io, const FeatureTask& task, Room scratch) {
  HWY_DYNAMIC_DISPATCH(run_forward)(io, task, scratch);
}

void cpu::feature_tops(const FeatureRows& in, const FeatureTask& task, Room scratch) {
  HWY_DYNAMIC_DISPATCH(run_tops)(in, task, scratch);
}

void cpu::feature_exponents(const FeatureRows& in, const FeatureTask& task, const Tensor& out, Room scratch) {
  HWY_DYNAMIC_DISPATCH(run_exponents)(in, task, out, scratch);
}

void cpu::vjp_feature_rows(const FeatureBackward& io, const FeatureTask& task, void* d_gain, Room scratch) {
  HWY_DYNAMIC_DISPATCH(run_backward)(io, task, d_gain, scratch);
}

void cpu::feature_block(const FeatureForward& io, const FeatureTask& rows, Matrix<float> to, const BlockRoom& room) {
  HWY_DYNAMIC_DISPATCH(run_block)(io, rows, to, room);
}

void cpu::vjp_feature_block(const FeatureBackward& io, const FeatureTask& rows, const BlockGradient<float>& of,
                            const BlockRoom& room) {
  HWY_DYNAMIC_DISPATCH(run_vjp_block)(io, rows, of, room);
}

}  // namespace fovea
#endif  // HWY_ONCE
