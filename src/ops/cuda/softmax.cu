#include "ops/softmax_kernels.h"

#include "ops/cuda/peak.cuh"
#include "policy/math.h"

namespace fovea {
namespace {

using namespace device;  // NOLINT

template <class R, DType kType>
struct SoftmaxRows {
  bool log;
  PackedRow<kType> shape;
  Elements<R> x, y;

  template <int kPacks, class Group>
  __device__ void run(const Group& group) const {
    const std::int64_t begin = group.row * shape.width;
    const auto read = [&](std::int64_t c, R(&to)[kPack]) { shape.load(x, begin, c, to); };
    HeldRow<R, kPacks, Group, PackedRow<kType>> row(group, shape);
    row.load(x, begin, row.held);
    if (log) {
      const Peak<R> peak = peak_of(row, read);
      const R log_sum = peak.sum == 0 ? R(0) : math::log(peak.sum);
      write(row, read, [&](R value) { return value - peak.top - log_sum; });
    } else {
      const R top = top_of(row, read);
      const auto exponentials = [&](std::int64_t, R(&pack)[kPack]) {
#pragma unroll
        for (R& value : pack) value = math::exp(value - top);
      };
      const auto read_exponentials = [&](std::int64_t c, R(&to)[kPack]) {
        read(c, to);
        exponentials(c, to);
      };
      row.each_held(exponentials);
      const R sum = row.sum(read_exponentials, [](std::int64_t, R value) { return value; });
      const R inverse = sum == 0 ? R(0) : 1 / sum;
      write(row, read_exponentials, [&](R value) { return value * inverse; });
    }
  }
  template <class Row, class Again, class F>
  __device__ void write(Row& row, const Again& again, const F& f) const {
    row.packs(again, [&](std::int64_t c, R(&pack)[kPack]) {
#pragma unroll
      for (R& value : pack) value = f(value);
      shape.store(y, row.group.row * shape.width, c, pack);
    });
  }
};

template <class R, DType kType>
struct SoftmaxVjpRows {
  bool log;
  PackedRow<kType> shape;
  Elements<R> g, y, dx;

  template <int kPacks, class Group>
  __device__ void run(const Group& group) const {
    const std::int64_t begin = group.row * shape.width;
    const auto read_g = [&](std::int64_t c, R(&to)[kPack]) { shape.load(g, begin, c, to); };
    HeldRow<R, kPacks, Group, PackedRow<kType>> row(group, shape);
    row.load(g, begin, row.held);
    R sum(0);
    row.packs(read_g, [&](std::int64_t c, R(&pack)[kPack]) {
      R other[kPack];
      if (!log) shape.load(y, begin, c, other);
#pragma unroll
      for (int e = 0; e < kPack; ++e) sum += log ? pack[e] : pack[e] * other[e];  // 0 behind the end
    });
    sum = group.sum(sum);
    row.packs(read_g, [&](std::int64_t c, R(&pack)[kPack]) {
      R other[kPack];
      shape.load(y, begin, c, other);
#pragma unroll
      for (int e = 0; e < kPack; ++e) pack[e] = log ? pack[e] - math::exp(other[e]) * sum : other[e] * (pack[e] - sum);
      shape.store(dx, begin, c, pack);
    });
  }
};

template <class R, DType kType>
struct LogSumExpRows {
  PackedRow<kType> shape;
  Elements<R> x;
  R* y;

  template <int kPacks, class Group>
  __device__ void run(const Group& group) const {
    const std::int64_t begin = group.row * shape.width;
    const auto read = [&](std::int64_t c, R(&to)[kPack]) { shape.load(x, begin, c, to); };
    HeldRow<R, kPacks, Group, PackedRow<kType>> row(group, shape);
    row.load(x, begin, row.held);
    const Peak<R> peak = peak_of(row, read);
    if (group.lane == 0) y[group.row] = peak.sum == 0 ? -math::kInfinity<R> : peak.top + math::log(peak.sum);
  }
};

template <class R, DType kType>
struct LogSumExpVjpRows {
  PackedRow<kType> shape;
  Elements<R> x, dx;
  const R *g, *y;

  template <int kPacks, class Group>
  __device__ void run(const Group& group) const {
    const std::int64_t begin = group.row * shape.width;
    const R sum = y[group.row], upstream = g[group.row];
    const bool empty = sum == -math::kInfinity<R>;
    for (std::int64_t c = group.lane * kPack; c < shape.width; c += Group::lanes * kPack) {
      R pack[kPack];
      shape.load(x, begin, c, pack);
#pragma unroll
      for (R& value : pack) value = empty ? R(0) : upstream * math::exp(value - sum);
      shape.store(dx, begin, c, pack);
    }
  }
};

}  // namespace

template <>
void kernels::softmax<Device::cuda>(const Context& context, const Softmax& io) {
  const std::int64_t width = io.x.dim(1);
  visit_stored(io.x.dtype(), [&]<class R, DType kType>() {
    held_rows(context, io.x.dim(0), width,
              SoftmaxRows<R, kType>{io.log, {width, {&io.x, &io.y}}, elements<R>(io.x), elements<R>(io.y)});
  });
}

template <>
void kernels::softmax_backward<Device::cuda>(const Context& context, const SoftmaxVjp& io) {
  const std::int64_t width = io.g.dim(1);
  visit_stored(io.g.dtype(), [&]<class R, DType kType>() {
    held_rows(context, io.g.dim(0), width,
              SoftmaxVjpRows<R, kType>{
                  io.log, {width, {&io.g, &io.y, &io.dx}}, elements<R>(io.g), elements<R>(io.y), elements<R>(io.dx)});
  });
}

template <>
void kernels::log_sum_exp<Device::cuda>(const Context& context, const LogSumExp& io) {
  const std::int64_t width = io.x.dim(1);
  visit_stored(io.x.dtype(), [&]<class R, DType kType>() {
    held_rows(context, io.x.dim(0), width,
              LogSumExpRows<R, kType>{{width, {&io.x}}, elements<R>(io.x), pointer<R>(io.y)});
  });
}

template <>
void kernels::log_sum_exp_backward<Device::cuda>(const Context& context, const LogSumExpVjp& io) {
  const std::int64_t width = io.x.dim(1);
  visit_stored(io.x.dtype(), [&]<class R, DType kType>() {
    held_rows(context, io.x.dim(0), width,
              LogSumExpVjpRows<R, kType>{
                  {width, {&io.x, &io.dx}}, elements<R>(io.x), elements<R>(io.dx), pointer<R>(io.g), pointer<R>(io.y)});
  });
}

}  // namespace fovea
