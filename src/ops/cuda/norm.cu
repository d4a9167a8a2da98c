#include "ops/norm_kernels.h"

#include "core/wide.h"
#include "ops/cuda/dropout.cuh"
#include "tensor/cuda/columns.cuh"
#include "tensor/cuda/held_rows.cuh"

namespace fovea {
namespace {

using namespace device;  // NOLINT

// As RowStats in cpu/norm.cc.
template <class R>
struct RowStats {
  R factor, shift, pull;
};

// The factors of a pack whose first element has number i.
template <class R>
__device__ void keep_factors(const DropoutFactors<R>& keep, bool has_packs, std::int64_t i, R (&to)[kPack]) {
  if (keep.threshold == 0) {
#pragma unroll
    for (int e = 0; e < kPack; ++e) to[e] = R(1);
  } else if (has_packs) {
    const Philox words = keep.of_eight(i);
#pragma unroll
    for (int e = 0; e < kPack; ++e) to[e] = keep.factor(words, e);
  } else {
    for (int e = 0; e < kPack; ++e) to[e] = keep[i + e];
  }
}

template <class R, DType kType>
struct NormRows {
  NormKind kind;
  R eps;
  DropoutFactors<R> keep;
  PackedRow<kType> shape;
  Elements<R> x, branch, sum, y, gain, bias;
  R* stats;

  // x + keep(branch), as it is stored; and stores it.
  __device__ void join(std::int64_t begin, std::int64_t c, const R (&other)[kPack], R (&to)[kPack]) const {
    R factors[kPack];
    keep_factors(keep, shape.has_packs, begin + c, factors);
#pragma unroll
    for (int e = 0; e < kPack; ++e) to[e] = as_stored(kType, to[e] + other[e] * factors[e]);
    shape.store(sum, begin, c, to);
  }
  template <int kPacks, class Row>
  __device__ void read(Row& row, std::int64_t begin) const {
    row.load(x, begin, row.held);
    if (!branch.defined()) return;
    R other[kPacks][kPack];
    row.load(branch, begin, other);
    row.packs_with(other, [&](std::int64_t c, const R(&more)[kPack], R(&to)[kPack]) { join(begin, c, more, to); });
    row.each_left([&](std::int64_t c) {
      R to[kPack], more[kPack];
      shape.load(x, begin, c, to);
      shape.load(branch, begin, c, more);
      join(begin, c, more, to);
    });
  }
  __device__ RowStats<R> stats_of(R shift, R squares) const {
    const R width = static_cast<R>(shape.width);
    if (kind == NormKind::l2) {
      const R length = sqrt(squares);
      return length > eps ? RowStats<R>{1 / length, shift, width} : RowStats<R>{1 / eps, shift, R(0)};
    }
    const R power = squares / width;
    if (kind != NormKind::rms_a) return {1 / sqrt(power + eps), shift, R(1)};
    const R root = sqrt(power);
    return {1 / (root + eps), shift, root > 0 ? (root + eps) / root : R(0)};
  }

  template <int kPacks, class Group>
  __device__ void run(const Group& group) const {
    const std::int64_t begin = group.row * shape.width;
    const auto again = [&](std::int64_t c, R(&to)[kPack]) { shape.load(sum, begin, c, to); };
    HeldRow<R, kPacks, Group, PackedRow<kType>> row(group, shape);
    read<kPacks>(row, begin);
    R shift(0);
    if (kind == NormKind::layer)
      shift = row.sum(again, [](std::int64_t, R value) { return value; }) / static_cast<R>(shape.width);
    const R squares = row.sum(again, [&](std::int64_t, R value) { return (value - shift) * (value - shift); });
    const RowStats<R> found = stats_of(shift, squares);
    if (group.lane == 0) {
      stats[2 * group.row] = found.factor;
      stats[2 * group.row + 1] = kind == NormKind::layer ? found.shift : found.pull;
    }
    row.packs(again, [&](std::int64_t c, R(&pack)[kPack]) {
      R by[kPack], plus[kPack];
      shape.wide().load(gain, 0, c, by);
      shape.wide().load(bias, 0, c, plus);
#pragma unroll
      for (int e = 0; e < kPack; ++e) pack[e] = (pack[e] - shift) * found.factor * by[e] + plus[e];
      shape.store(y, begin, c, pack);
    });
  }
};

template <class R, DType kType>
void forward(const Context& context, const kernels::NormForward& io) {
  const std::int64_t width = io.x.dim(1);
  held_rows(context, io.x.dim(0), width,
            NormRows<R, kType>{io.kind,
                               static_cast<R>(io.eps),
                               DropoutFactors<R>(io.keep),
                               {width, {&io.x, &io.branch, &io.sum, &io.y, &io.gain, &io.bias}},
                               elements<R>(io.x),
                               elements<R>(io.branch),
                               elements<R>(io.sum),
                               elements<R>(io.y),
                               elements<R>(io.gain),
                               elements<R>(io.bias),
                               pointer<R>(io.stats)});
}

// Backward of a row: what a group of lanes does to it.
template <class R, DType kType>
struct NormVjp {
  bool centred;
  DropoutFactors<R> keep;
  PackedRow<kType> shape;
  Elements<R> x, g, g_sum, dx, dbranch, gain;
  const R* stats;

  __device__ RowStats<R> stats_of(std::int64_t row) const {
    const R factor = stats[2 * row], other = stats[2 * row + 1];
    return centred ? RowStats<R>{factor, other, R(1)} : RowStats<R>{factor, R(0), other};
  }
  __device__ void read(const RowStats<R>& found, std::int64_t begin, std::int64_t c, Values<R, kPack>& hat,
                       Values<R, kPack>& upstream) const {
    shape.load(x, begin, c, hat.of);
    shape.load(g, begin, c, upstream.of);
#pragma unroll
    for (R& value : hat.of) value = (value - found.shift) * found.factor;
  }
  __device__ void write(std::int64_t begin, std::int64_t c, const R (&other)[kPack], R (&d)[kPack]) const {
#pragma unroll
    for (int e = 0; e < kPack; ++e) d[e] += other[e];
    shape.store(dx, begin, c, d);
    if (!dbranch.defined()) return;
    R factors[kPack];
    keep_factors(keep, shape.has_packs, begin + c, factors);
#pragma unroll
    for (int e = 0; e < kPack; ++e) d[e] = as_stored(kType, d[e]) * factors[e];
    shape.store(dbranch, begin, c, d);
  }

  // each(f): f(p, column) for the packs p of a lane. add(p, xhat, g) is told each of them. A single pack stays in
  // registers; of several the second look finds the row in L1.
  template <bool kHeld, class Group, class Each, class Add>
  __device__ void run(const Group& group, const Each& each, const Add& add) const {
    const std::int64_t begin = group.row * shape.width;
    const RowStats<R> found = stats_of(group.row);
    Values<R, kPack> hat, upstream;
    R by[kPack], other[kPack] = {}, plain(0), crossed(0);
    each([&](int p, std::int64_t c) {
      read(found, begin, c, hat, upstream);
      shape.wide().load(gain, 0, c, by);
      if (kHeld && g_sum.defined()) shape.load(g_sum, begin, c, other);
#pragma unroll
      for (int e = 0; e < kPack; ++e) {  // g and gain are 0 behind the end
        plain += upstream[e] * by[e];
        crossed += upstream[e] * by[e] * hat[e];
      }
      add(p, hat, upstream);
    });
    const R width = static_cast<R>(shape.width);
    const R mean = centred ? group.sum(plain) / width : R(0), along = found.pull * group.sum(crossed) / width;
    each([&](int, std::int64_t c) {
      if constexpr (!kHeld) {
        read(found, begin, c, hat, upstream);
        shape.wide().load(gain, 0, c, by);
        if (g_sum.defined()) shape.load(g_sum, begin, c, other);
      }
#pragma unroll
      for (int e = 0; e < kPack; ++e) upstream[e] = found.factor * (upstream[e] * by[e] - mean - along * hat[e]);
      write(begin, c, other, upstream.of);
    });
  }
};

// Rows of any width, without the sums over rows.
template <class R, DType kType>
struct NormVjpRow {
  NormVjp<R, kType> vjp;

  template <class Group>
  __device__ void operator()(const Group& group) const {
    const auto each = [&](const auto& f) {
      for (std::int64_t c = group.lane * kPack; c < vjp.shape.width; c += Group::lanes * kPack) f(0, c);
    };
    vjp.template run<false>(group, each, [](int, const auto&, const auto&) {});
  }
};

// A block takes a segment of rows, its groups every so many of them. They keep the sums of their columns in registers,
// and the block joins them in order. partial (segments, 2, width): of the gradients of gain and bias.
template <int kBlock, int kLanes, int kPacks, class R, DType kType>
__global__ void __launch_bounds__(kBlock, kPacks == 1 && kBlock == kThreads && sizeof(R) == 4 ? 3 : 1)
    norm_vjp_kernel(NormVjp<R, kType> vjp, Segments segments, R* partial) {
  constexpr int kGroups = kBlock / kLanes, kRoom = kLanes * kPacks * kPack;
  __shared__ R of_group[kGroups][kRoom];
  const int group = static_cast<int>(threadIdx.x) / kLanes, lane = static_cast<int>(threadIdx.x) % kLanes;
  const auto width = static_cast<int>(vjp.shape.width);
  const auto each = [&](const auto& f) {
#pragma unroll
    for (int p = 0; p < kPacks; ++p)
      if (const std::int64_t c = (p * kLanes + lane) * kPack; c < width) f(p, c);
  };
  R d_gain[kPacks][kPack] = {}, d_bias[kPacks][kPack] = {};
  const std::int64_t begin = blockIdx.x * segments.size;
  const std::int64_t end = begin + segments.size < segments.rows ? begin + segments.size : segments.rows;
  for (std::int64_t row = begin + group; row < end; row += kGroups)
    vjp.template run<kPacks == 1>(RowGroup<kLanes>{row, lane}, each, [&](int p, const auto& hat, const auto& upstream) {
#pragma unroll
      for (int e = 0; e < kPack; ++e) {
        d_gain[p][e] += upstream[e] * hat[e];
        d_bias[p][e] += upstream[e];
      }
    });
  const auto join = [&](const R(&sums)[kPacks][kPack], R* to) {
    __syncthreads();
#pragma unroll
    for (int p = 0; p < kPacks; ++p)
#pragma unroll
      for (int e = 0; e < kPack; ++e) of_group[group][(p * kLanes + lane) * kPack + e] = sums[p][e];
    __syncthreads();
    for (int c = static_cast<int>(threadIdx.x); c < width; c += kBlock)
      to[c] = join_lanes(&of_group[0][0], kGroups, kRoom, c);
  };
  join(d_gain, partial + 2 * blockIdx.x * vjp.shape.width);
  join(d_bias, partial + (2 * blockIdx.x + 1) * vjp.shape.width);
}

// Puts the sums of the gradients of gain and bias where they are wanted.
template <class R>
struct PutSums {
  Elements<R> d_gain, d_bias;

  explicit PutSums(const kernels::NormBackward& io) : d_gain(elements<R>(io.d_gain)), d_bias(elements<R>(io.d_bias)) {}
  __device__ void operator()(std::int64_t c, const Values<R, 2>& sums) const {
    if (d_gain.defined()) d_gain.put(c, sums[0]);
    if (d_bias.defined()) d_bias.put(c, sums[1]);
  }
};

template <int kLanes, int kPacks, class R, DType kType>
void vjp_segments(const Context& context, const kernels::NormBackward& io, const NormVjp<R, kType>& vjp) {
  constexpr int kBlock = kLanes <= 32 ? kThreads : kLanes;
  constexpr std::int64_t kRowsOfGroup = 4, kMost = kBlock == kThreads ? 384 : 1024;  // blocks that run at once
  const std::int64_t width = io.sum.dim(1);
  const Segments segments(io.sum.dim(0), kBlock / kLanes * kRowsOfGroup, kMost);
  const Tensor partial =
      Tensor::empty(context, {segments.count, 2, width}, wide_type(io.sum.dtype()), Lifetime::scratch);
  norm_vjp_kernel<kBlock, kLanes, kPacks>
      <<<static_cast<unsigned>(segments.count), kBlock, 0, stream_of(context)>>>(vjp, segments, pointer<R>(partial));
  check_cuda(cudaGetLastError(), "a norm's backward");
  const Elements<R> d_gain = elements<R>(io.d_gain), d_bias = elements<R>(io.d_bias);
  join_parts(context, {segments.count, 2 * width}, pointer<R>(partial), [=] __device__(std::int64_t c, R sum) {
    if (c < width && d_gain.defined()) d_gain.put(c, sum);
    if (c >= width && d_bias.defined()) d_bias.put(c - width, sum);
  });
}

// The sums over rows of what does not fit into registers.
template <class R, DType kType>
void vjp_wide(const Context& context, const kernels::NormBackward& io, const NormVjp<R, kType>& vjp) {
  const std::int64_t count = io.sum.dim(0), width = io.sum.dim(1);
  rows(context, count, width, NormVjpRow<R, kType>{vjp});
  column_sums(
      context, {count, width},
      [=] __device__(std::int64_t r, std::int64_t c) -> Values<R, 2> {
        const RowStats<R> found = vjp.stats_of(r);
        const R upstream = vjp.g[r * width + c];
        return {{upstream * (vjp.x[r * width + c] - found.shift) * found.factor, upstream}};
      },
      PutSums<R>(io));
}

template <class R, DType kType>
void backward(const Context& context, const kernels::NormBackward& io) {
  const std::int64_t width = io.sum.dim(1);
  const NormVjp<R, kType> vjp{io.kind == NormKind::layer,
                              DropoutFactors<R>(io.keep),
                              {width, {&io.sum, &io.g, &io.g_sum, &io.dx, &io.dbranch, &io.gain}},
                              elements<R>(io.sum),
                              elements<R>(io.g),
                              elements<R>(io.g_sum),
                              elements<R>(io.dx),
                              elements<R>(io.dbranch),
                              elements<R>(io.gain),
                              pointer<R>(io.stats)};
  if (width <= 64) return vjp_segments<8, 1>(context, io, vjp);
  if (width <= 128) return vjp_segments<16, 1>(context, io, vjp);
  if (width <= 256) return vjp_segments<32, 1>(context, io, vjp);
  if (width <= 512) return vjp_segments<32, 2>(context, io, vjp);
  if (width <= 1024) return vjp_segments<128, 1>(context, io, vjp);
  if (width <= 4096) return vjp_segments<128, 4>(context, io, vjp);
  vjp_wide(context, io, vjp);
}

}  // namespace

template <>
void kernels::norm_forward<Device::cuda>(const Context& context, const NormForward& io) {
  visit_stored(io.x.dtype(), [&]<class R, DType kType>() { forward<R, kType>(context, io); });
}

template <>
void kernels::norm_backward<Device::cuda>(const Context& context, const NormBackward& io) {
  visit_stored(io.sum.dtype(), [&]<class R, DType kType>() { backward<R, kType>(context, io); });
}

}  // namespace fovea
