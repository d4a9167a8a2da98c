#include "ops/expert_linear_kernels.h"

#include <vector>

#include "core/wide.h"
#include "ops/activation_kernels.h"
#include "tensor/cuda/loops.cuh"

// Products whose sizes the card alone knows: a block makes a tile of one, if there is one for it.
namespace fovea {
namespace {

using namespace device;  // NOLINT

// A matrix of any strides.
template <class R>
struct Matrix {
  Elements<R> of;
  std::int64_t down = 0, across = 0;

  __device__ R at(std::int64_t i, std::int64_t j) const { return of[i * down + j * across]; }
  __device__ Matrix transposed() const { return {of, across, down}; }
  __device__ Matrix from_row(std::int64_t i) const {
    const std::int64_t size = of.dtype == DType::f64 ? 8 : of.dtype == DType::f32 ? 4 : 2;
    return {{static_cast<char*>(of.data) + i * down * size, of.dtype}, down, across};
  }
};

template <class R>
Matrix<R> matrix_of(const Tensor& t) {
  return t.defined() ? Matrix<R>{elements<R>(t), t.stride(0), t.stride(1)} : Matrix<R>{};
}
template <class R>
std::vector<Matrix<R>> matrices_of(const std::vector<Tensor>& list) {
  std::vector<Matrix<R>> out;
  for (const Tensor& t : list) out.push_back(matrix_of<R>(t));
  return out;
}

struct Extent {
  std::int64_t m, n, k;
};

// put(i, j, sum over k of a_ik b_kj) for the tile of 64 x 64 whose first element is (row, column).
template <class R, class Put>
__device__ void tile_product(const Matrix<R>& a, const Matrix<R>& b, const Extent& size, std::int64_t row,
                             std::int64_t column, const Put& put) {
  constexpr int kTile = 64, kDepth = 16, kOwn = 4;
  __shared__ R left[kDepth][kTile + 1], right[kDepth][kTile + 1];
  const int thread = static_cast<int>(threadIdx.x), x = thread % 16, y = thread / 16;
  const bool a_along = a.across == 1, b_along = b.across == 1;
  R sum[kOwn][kOwn] = {};
  for (std::int64_t first = 0; first < size.k; first += kDepth) {
    for (int e = thread; e < kTile * kDepth; e += kThreads) {
      const int i = a_along ? e / kDepth : e % kTile, l = a_along ? e % kDepth : e / kTile;
      left[l][i] = row + i < size.m && first + l < size.k ? a.at(row + i, first + l) : R(0);
    }
    for (int e = thread; e < kTile * kDepth; e += kThreads) {
      const int j = b_along ? e % kTile : e / kDepth, l = b_along ? e / kTile : e % kDepth;
      right[l][j] = column + j < size.n && first + l < size.k ? b.at(first + l, column + j) : R(0);
    }
    __syncthreads();
#pragma unroll
    for (int l = 0; l < kDepth; ++l)
#pragma unroll
      for (int i = 0; i < kOwn; ++i)
#pragma unroll
        for (int j = 0; j < kOwn; ++j) sum[i][j] += left[l][y + 16 * i] * right[l][x + 16 * j];
    __syncthreads();
  }
  for (int i = 0; i < kOwn; ++i)
    for (int j = 0; j < kOwn; ++j)
      if (row + y + 16 * i < size.m && column + x + 16 * j < size.n)
        put(row + y + 16 * i, column + x + 16 * j, sum[i][j]);
}

constexpr std::int64_t kTile = 64;
unsigned tiles(std::int64_t count) { return static_cast<unsigned>((count + kTile - 1) / kTile); }

// The tiles of rows of all experts, one after the other, each expert's from its first row on: at most
// rows / 64 + experts of them. Then those of the rows after the last.
struct RowTile {
  std::int64_t expert, begin, end, row;  // row: of the tile, from `begin` on; expert: the number of them after the last

  __device__ static RowTile find(const std::int32_t* begin, std::int64_t experts, std::int64_t rows,
                                 std::int64_t tile) {
    for (std::int64_t e = 0; e <= experts; ++e) {
      const std::int64_t first = begin[e], last = e < experts ? begin[e + 1] : rows;
      const std::int64_t own = (last - first + kTile - 1) / kTile;
      if (tile < own) return {e, first, last, tile * kTile};
      tile -= own;
    }
    return {-1, 0, 0, 0};
  }
};

// out = x W_e (+ b_e), 0 after the last row; max(., 0) where relu is.
template <class R>
struct RowProducts {
  Matrix<R> x, out;
  const Matrix<R>* weights;
  const Matrix<R>* biases;  // null: none
  const std::int32_t* begin;
  std::int64_t experts, rows, in, width;
  bool transposed, relu;  // transposed: W_e^T

  __device__ void operator()() const {
    const RowTile tile = RowTile::find(begin, experts, rows, blockIdx.x);
    if (tile.expert < 0) return;
    const bool is_rest = tile.expert == experts;
    const Matrix<R> b = is_rest ? Matrix<R>{} : transposed ? weights[tile.expert].transposed() : weights[tile.expert];
    const Extent size{tile.end - tile.begin, width, is_rest ? 0 : in};
    tile_product(x.from_row(tile.begin), b, size, tile.row, std::int64_t{blockIdx.y} * kTile,
                 [&](std::int64_t i, std::int64_t j, R sum) {
                   if (biases != nullptr && !is_rest) sum += biases[tile.expert].of[j];
                   if (relu && !(sum > 0)) sum = sum == sum ? R(0) : sum;
                   out.of.put((tile.begin + i) * out.down + j * out.across, sum);
                 });
  }
};

// grad_e (+)= x_e^T dz_e.
template <class R>
struct WeightGradients {
  Matrix<R> x, dz;
  const Matrix<R>* grads;  // undefined: not wanted
  const std::uint8_t* fresh;
  const std::int32_t* begin;
  std::int64_t in, out;

  __device__ void operator()() const {
    const std::int64_t e = blockIdx.z, first = begin[e];
    const Matrix<R> grad = grads[e];
    if (!grad.of.defined()) return;
    tile_product(x.from_row(first).transposed(), dz.from_row(first), Extent{in, out, begin[e + 1] - first},
                 std::int64_t{blockIdx.y} * kTile, std::int64_t{blockIdx.x} * kTile,
                 [&](std::int64_t i, std::int64_t j, R sum) {
                   const std::int64_t at = i * grad.down + j * grad.across;
                   grad.of.put(at, fresh[e] != 0 ? sum : grad.of[at] + sum);
                 });
  }
};

template <class F>
__global__ void products_kernel(F f) {
  f();
}

template <class F>
void launch(const Context& context, const dim3& grid, const F& f) {
  if (grid.x == 0 || grid.y == 0 || grid.z == 0) return;
  products_kernel<<<grid, kThreads, 0, stream_of(context)>>>(f);
  check_cuda(cudaGetLastError(), "products of experts");
}

unsigned row_tiles(std::int64_t rows, std::int64_t experts) {
  return static_cast<unsigned>(rows / kTile + experts + 1);
}

template <class R>
void multiply(const Context& context, const kernels::ExpertProducts& io) {
  const auto weights = upload(context, matrices_of<R>(io.weights));
  std::vector<Tensor> rows_of_biases;
  for (const Tensor& bias : io.biases) rows_of_biases.push_back(bias.reshape({1, bias.numel()}));
  const auto biases = upload(context, matrices_of<R>(rows_of_biases));
  const std::int64_t rows = io.x.dim(0), width = io.z.dim(1);
  launch(context, {row_tiles(rows, weights.size()), tiles(width)},
         RowProducts<R>{matrix_of<R>(io.x), matrix_of<R>(io.z), weights.data(),
                        io.biases.empty() ? nullptr : biases.data(), pointer<std::int32_t>(io.begin), weights.size(),
                        rows, io.x.dim(1), width, false, io.activation == Activation::relu});
}

// t (rows, width) becomes 0 after the last row of the experts.
void clear_after(const Context& context, const Tensor& t, const Tensor& begin) {
  const Elements<double> to = elements<double>(t);
  const std::int32_t* const last = pointer<std::int32_t>(begin) + begin.numel() - 1;
  const std::int64_t width = t.dim(1);
  each(context, t.numel(), [=] __device__(std::int64_t i) {
    if (i / width >= *last) to.put(i, 0.0);
  });
}

template <class R>
void sum_biases(const Context& context, const kernels::ExpertVjps& io) {
  const Elements<R> dz = elements<R>(io.dz), to = elements<R>(io.d_biases);
  const std::int32_t* const begin = pointer<std::int32_t>(io.begin);
  const std::int64_t width = io.dz.dim(1);
  column_sums(
      context, {io.dz.dim(0), io.d_biases.numel()},
      [=] __device__(std::int64_t row, std::int64_t c) -> R {
        const std::int64_t e = c / width;
        return row >= begin[e] && row < begin[e + 1] ? dz[row * width + c % width] : R(0);
      },
      [=] __device__(std::int64_t c, R sum) { to.put(c, sum); });
}

template <class R>
void vjp(const Context& context, const kernels::ExpertVjps& io) {
  const std::int64_t rows = io.x.dim(0), in = io.x.dim(1), out = io.dz.dim(1), experts = std::ssize(io.weights);
  std::vector<Tensor> grads;
  std::vector<std::uint8_t> fresh;
  for (const kernels::ExpertGradient& d : io.d_weights) {
    grads.push_back(d.grad);
    fresh.push_back(d.fresh ? 1 : 0);
  }
  const auto weights = upload(context, matrices_of<R>(io.weights)), to = upload(context, matrices_of<R>(grads));
  const auto are_fresh = upload(context, fresh);
  const Matrix<R> x = matrix_of<R>(io.x), dz = matrix_of<R>(io.dz);
  const std::int32_t* const begin = pointer<std::int32_t>(io.begin);
  if (!grads.empty())
    launch(context, {tiles(out), tiles(in), static_cast<unsigned>(experts)},
           WeightGradients<R>{x, dz, to.data(), are_fresh.data(), begin, in, out});
  if (io.dx.defined())
    launch(
        context, {row_tiles(rows, experts), tiles(in)},
        RowProducts<R>{dz, matrix_of<R>(io.dx), weights.data(), nullptr, begin, experts, rows, out, in, true, false});
  if (io.d_biases.defined()) sum_biases<R>(context, io);
}

}  // namespace

template <>
void kernels::expert_linear<Device::cuda>(const Context& context, const ExpertProducts& io) {
  visit_wide(io.x.dtype(), [&]<class R>() { multiply<R>(context, io); });
  if (io.activation == Activation::identity || io.activation == Activation::relu) return;
  kernels::activate<Device::cuda>(context, {io.activation, io.z, io.y});
  clear_after(context, io.y, io.begin);
}

template <>
void kernels::expert_linear_backward<Device::cuda>(const Context& context, const ExpertVjps& io) {
  if (io.activation != Activation::identity)
    kernels::activate_backward<Device::cuda>(context, {io.activation, io.g, io.saved, io.dz});
  visit_wide(io.x.dtype(), [&]<class R>() { vjp<R>(context, io); });
}

}  // namespace fovea
