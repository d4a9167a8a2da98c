#include "core/cuda/card_memory.h"
#include "core/cuda/memory.h"
#include "core/cuda/storage.cuh"
#include "core/wide.h"
#include "policy/merge.h"
#include "tensor/array_of.h"
#include "tile/merge_kernels.h"

namespace fovea::tile::kernels {
namespace {

using device::load_as, device::store_as;

constexpr int kThreads = 256, kLanes = 32;

struct PartArrays {
  Out o, lse;
};
PartArrays arrays_of(const PartialOutput& part) { return {array_of<Out>(part.o), array_of<Out>(part.lse)}; }

struct Sizes {
  std::int64_t rows, n, heads, width;  // rows: (batch, n, heads)
  DType dtype;
};
Sizes sizes_of(const Tensor& o) { return {o.numel() / o.dim(3), o.dim(1), o.dim(2), o.dim(3), o.dtype()}; }

// A row of (batch, n, heads) for each warp.
struct Row {
  std::int64_t batch, at, head;
  __device__ Row(const Sizes& s, std::int64_t row)
      : batch(row / s.heads / s.n), at(row / s.heads % s.n), head(row % s.heads) {}
  __device__ std::int64_t in(const Out& x) const { return batch * x.batch + at * x.row + head * x.head; }
};
__device__ std::int64_t warp_row() { return std::int64_t{blockIdx.x} * (kThreads / kLanes) + threadIdx.x / kLanes; }

template <class R>
__device__ R lse_of(const PartArrays& part, const Row& row) {
  return static_cast<const R*>(part.lse.data)[row.in(part.lse)];
}

template <class R>
__global__ void merge_kernel(Sizes s, PartArrays a, PartArrays b, PartArrays to) {
  if (warp_row() >= s.rows) return;
  const Row row(s, warp_row());
  const R lse_a = lse_of<R>(a, row), lse_b = lse_of<R>(b, row);
  const auto shares = MergeShares<R>::of(lse_a, lse_b);
  const bool has_a = !shares.is_empty(lse_a), has_b = !shares.is_empty(lse_b);
  for (std::int64_t c = threadIdx.x % kLanes; c < s.width; c += kLanes) {
    R sum = has_a ? shares.a * load_as<R>(a.o.data, s.dtype, row.in(a.o) + c) : R{0};
    if (has_b) sum += shares.b * load_as<R>(b.o.data, s.dtype, row.in(b.o) + c);
    store_as<R>(to.o.data, s.dtype, row.in(to.o) + c, sum);
  }
  __syncwarp();  // `to` may be a part: its log-sum-exp was read by all lanes
  if (threadIdx.x % kLanes == 0) static_cast<R*>(to.lse.data)[row.in(to.lse)] = shares.whole;
}

// d_part = share d_o; d_lse_part = share (share of the other d_o . (part - other) + d_lse).
template <class R>
__global__ void vjp_kernel(Sizes s, PartArrays part, PartArrays other, Out lse, PartArrays d, PartArrays d_part) {
  if (warp_row() >= s.rows) return;
  const Row row(s, warp_row());
  const R whole = static_cast<const R*>(lse.data)[row.in(lse)];
  const R share = MergeShares<R>::share(lse_of<R>(part, row), whole),
          rest = MergeShares<R>::share(lse_of<R>(other, row), whole);
  const bool apart = share > 0 && rest > 0;
  const auto at = [&](const Out& x, std::int64_t c) { return load_as<R>(x.data, s.dtype, row.in(x) + c); };
  R sum = 0;
  for (std::int64_t c = threadIdx.x % kLanes; c < s.width; c += kLanes) {
    const R g = d.o.data != nullptr ? at(d.o, c) : R{0};
    store_as<R>(d_part.o.data, s.dtype, row.in(d_part.o) + c, share * g);
    if (apart) sum += g * (at(part.o, c) - at(other.o, c));
  }
  for (int step = kLanes / 2; step > 0; step /= 2) sum += __shfl_xor_sync(~0u, sum, step);
  if (threadIdx.x % kLanes != 0) return;
  sum *= rest;
  if (d.lse.data != nullptr) sum += lse_of<R>(d, row);
  static_cast<R*>(d_part.lse.data)[row.in(d_part.lse)] = share * sum;
}

template <class... Parameters, class... Arguments>
void start(const Context& context, const Sizes& s, void (*kernel)(Sizes, Parameters...),
           const Arguments&... arguments) {
  if (s.rows == 0) return;
  constexpr int kRows = kThreads / kLanes;
  kernel<<<static_cast<unsigned>((s.rows + kRows - 1) / kRows), kThreads, 0, device::stream_of(context)>>>(
      s, arguments...);
  device::check_cuda(cudaGetLastError(), "merge of parts");
}

}  // namespace

template <>
void merge<Device::cuda>(const Context& context, const Merge& io) {
  const Sizes sizes = sizes_of(io.to.o);
  const auto run = [&](auto* kernel) {
    start(context, sizes, kernel, arrays_of(io.a), arrays_of(io.b), arrays_of(io.to));
  };
  sizes.dtype == DType::f64 ? run(merge_kernel<double>) : run(merge_kernel<float>);
}

template <>
void merge_backward<Device::cuda>(const Context& context, const MergeGradient& io) {
  const Sizes sizes = sizes_of(io.part.o);
  const auto run = [&](auto* kernel) {
    start(context, sizes, kernel, arrays_of(io.part), arrays_of(io.other), array_of<Out>(io.lse),
          arrays_of({io.d_o, io.d_lse}), arrays_of(io.d_part));
  };
  sizes.dtype == DType::f64 ? run(vjp_kernel<double>) : run(vjp_kernel<float>);
}

}  // namespace fovea::tile::kernels
