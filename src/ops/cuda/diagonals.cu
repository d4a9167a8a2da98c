#include "ops/diagonals_kernels.h"

#include "core/wide.h"
#include "ops/cuda/packs.cuh"

namespace fovea {
namespace {

using namespace device;  // NOLINT

// Where things lie in the tensors of a product.
template <class R>
struct DiagonalWalk {
  DiagonalWalk(const kernels::DiagonalTensors& io, const std::int64_t* offsets, const Span* spans)
      : x(io.x),
        y(io.y),
        weights(elements<R>(io.weights)),
        offsets(offsets),
        spans(spans),
        n(io.x.dim(1)),
        heads(io.x.dim(2)),
        group(heads / io.y.dim(2)),
        count(std::ssize(io.offsets)),
        ring(io.ring),
        scale(static_cast<R>(io.scale)) {}

  // The row of (b n) that lies at an offset from row i, forth (sign 1) or back (-1); -1 where there is none.
  __device__ std::int64_t meet(std::int64_t i, std::int64_t c, std::int64_t sign) const {
    const Span span = spans[i];
    const std::int64_t row = i % n, length = span.end - span.begin;
    std::int64_t to = row + sign * offsets[c];
    if (ring && length > 0) {
      const std::int64_t wrapped = (to - span.begin) % length;
      to = span.begin + (wrapped < 0 ? wrapped + length : wrapped);
    }
    return to >= span.begin && to < span.end ? i - row + to : -1;
  }
  __device__ std::int64_t weight_at(std::int64_t i, std::int64_t head, std::int64_t c) const {
    return (i * heads + head) * count + c;
  }

  HeadRows<R> x, y;
  Elements<R> weights;
  const std::int64_t* offsets;
  const Span* spans;
  std::int64_t n, heads, group, count;
  bool ring;
  R scale;
};

// Lanes that share a product of two rows.
constexpr int kDotLanes = 8;

template <class R, int kCount>
__device__ R dot_of_lane(const DiagonalWalk<R>& walk, std::int64_t a, std::int64_t b, int lane, std::int64_t d) {
  R sum = 0;
  for (std::int64_t c = lane * kCount; c < d; c += kDotLanes * kCount) {
    R x[kCount], y[kCount];
    load(walk.x.of, a + c, x);
    load(walk.y.of, b + c, y);
#pragma unroll
    for (int k = 0; k < kCount; ++k) sum += x[k] * y[k];
  }
  return sum;
}

bool rows_have_packs(const kernels::DiagonalTensors& io) {
  return io.x.dim(3) % kPack == 0 && has_packs(io.x, 3) && has_packs(io.y, 3);
}

template <class R>
void dots(const Context& context, const kernels::DiagonalTensors& io, double outside) {
  const auto offsets = upload(context, io.offsets);
  const auto spans = upload(context, io.spans);
  const DiagonalWalk<R> walk(io, offsets.data(), spans.data());
  const std::int64_t d = io.x.dim(3);
  const bool packs = rows_have_packs(io);
  each(context, io.weights.numel() * kDotLanes, [=] __device__(std::int64_t thread) {
    const std::int64_t item = thread / kDotLanes, c = item % walk.count, row = item / walk.count / walk.heads,
                       head = item / walk.count % walk.heads, met = walk.meet(row, c, 1);
    const int lane = static_cast<int>(thread % kDotLanes);
    R sum = 0;
    if (met >= 0) {
      const std::int64_t a = walk.x.at(row, head), b = walk.y.at(met, head / walk.group);
      sum = packs ? dot_of_lane<R, kPack>(walk, a, b, lane, d) : dot_of_lane<R, 1>(walk, a, b, lane, d);
    }
    const unsigned mask = 0xffu << (threadIdx.x % 32 / kDotLanes * kDotLanes);
#pragma unroll
    for (int step = kDotLanes / 2; step > 0; step /= 2) sum += __shfl_xor_sync(mask, sum, step);
    if (lane == 0) walk.weights.put(item, met >= 0 ? walk.scale * sum : static_cast<R>(outside));
  });
}

template <class R>
void mix(const Context& context, const kernels::DiagonalTensors& io) {
  const auto offsets = upload(context, io.offsets);
  const auto spans = upload(context, io.spans);
  const DiagonalWalk<R> walk(io, offsets.data(), spans.data());
  each_pack(context, {io.x.dim(0) * io.x.dim(1) * io.x.dim(2), io.x.dim(3)}, rows_have_packs(io),
            [=] __device__(auto neighbours, std::int64_t item, std::int64_t column) {
              constexpr int kCount = decltype(neighbours)::count;
              const std::int64_t row = item / walk.heads, head = item % walk.heads;
              R sum[kCount] = {}, y[kCount];
              for (std::int64_t c = 0; c < walk.count; ++c) {
                const std::int64_t met = walk.meet(row, c, 1);
                if (met < 0) continue;
                const R weight = walk.weights[walk.weight_at(row, head, c)];
                load(walk.y.of, walk.y.at(met, head / walk.group) + column, y);
                for (int k = 0; k < kCount; ++k) sum[k] += weight * y[k];
              }
              for (R& s : sum) s *= walk.scale;
              store(walk.x.of, walk.x.at(row, head) + column, sum);
            });
}

template <class R>
void mix_back(const Context& context, const kernels::DiagonalTensors& io) {
  const auto offsets = upload(context, io.offsets);
  const auto spans = upload(context, io.spans);
  const DiagonalWalk<R> walk(io, offsets.data(), spans.data());
  const std::int64_t shared_heads = io.y.dim(2);
  each_pack(context, {io.y.dim(0) * io.y.dim(1) * shared_heads, io.y.dim(3)}, rows_have_packs(io),
            [=] __device__(auto neighbours, std::int64_t item, std::int64_t column) {
              constexpr int kCount = decltype(neighbours)::count;
              const std::int64_t row = item / shared_heads, first = item % shared_heads * walk.group;
              R sum[kCount] = {}, x[kCount];
              for (std::int64_t c = 0; c < walk.count; ++c) {
                const std::int64_t met = walk.meet(row, c, -1);
                if (met < 0) continue;
                for (std::int64_t head = first; head < first + walk.group; ++head) {
                  const R weight = walk.weights[walk.weight_at(met, head, c)];
                  load(walk.x.of, walk.x.at(met, head) + column, x);
                  for (int k = 0; k < kCount; ++k) sum[k] += weight * x[k];
                }
              }
              for (R& s : sum) s *= walk.scale;
              store(walk.y.of, walk.y.at(row, item % shared_heads) + column, sum);
            });
}

}  // namespace

template <>
void kernels::diagonal_dots<Device::cuda>(const Context& context, const DiagonalTensors& io, double outside) {
  visit_wide(io.x.dtype(), [&]<class R>() { dots<R>(context, io, outside); });
}

template <>
void kernels::diagonal_mix<Device::cuda>(const Context& context, const DiagonalTensors& io) {
  visit_wide(io.x.dtype(), [&]<class R>() { mix<R>(context, io); });
}

template <>
void kernels::diagonal_mix_back<Device::cuda>(const Context& context, const DiagonalTensors& io) {
  visit_wide(io.x.dtype(), [&]<class R>() { mix_back<R>(context, io); });
}

}  // namespace fovea
