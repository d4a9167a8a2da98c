#include <vector>

#include "core/cuda/card_memory.h"
#include "core/cuda/memory.h"
#include "tile/piece_gradients_kernels.h"

namespace fovea::tile::kernels {
namespace {

// What is added to one row of the gradient: (b or 1) x (heads or 1) rows.
struct Rows {
  std::int64_t pieces, heads, width, items, rows, item_stride, row_stride;
};

// Grid: (rows of the gradient, columns).
template <class T>
__global__ void add_kernel(Rows r, const std::int64_t* batch, const T* parts, T* to) {
  const std::int64_t column = std::int64_t{blockIdx.y} * blockDim.x + threadIdx.x;
  if (column >= r.width) return;
  const std::int64_t item = blockIdx.x / r.rows, row = blockIdx.x % r.rows;
  T sum = 0;
  for (std::int64_t piece = 0; piece < r.pieces; ++piece) {
    if (r.items > 1 && batch[piece] != item) continue;
    const std::int64_t first = r.rows == 1 ? 0 : row, last = r.rows == 1 ? r.heads : row + 1;
    for (std::int64_t head = first; head < last; ++head) sum += parts[(piece * r.heads + head) * r.width + column];
  }
  to[item * r.item_stride + row * r.row_stride + column] += sum;
}

}  // namespace

template <>
void add_piece_gradients<Device::cuda>(const Context& context, const PieceGradients& io) {
  const Rows rows{io.parts.dim(0), io.parts.dim(1), io.parts.dim(2), io.to.dim(0),
                  io.to.dim(1),    io.to.stride(0), io.to.stride(1)};
  if (rows.width == 0 || rows.items * rows.rows == 0) return;
  std::vector<std::int64_t> batch;
  for (const Piece& piece : io.pieces) batch.push_back(piece.batch);
  const device::Launch launch = device::launch_of(context);
  const device::DeviceScratch items(launch, batch.size() * sizeof(std::int64_t));
  context.memory()->write(items.data(), batch.data(), batch.size() * sizeof(std::int64_t));
  constexpr int kThreads = 256;
  const dim3 grid(static_cast<unsigned>(rows.items * rows.rows),
                  static_cast<unsigned>((rows.width + kThreads - 1) / kThreads));
  const auto run = [&]<class T>() {
    add_kernel<T><<<grid, kThreads, 0, launch.stream>>>(rows, static_cast<const std::int64_t*>(items.data()),
                                                        io.parts.data<T>(), io.to.data<T>());
  };
  io.to.dtype() == DType::f64 ? run.operator()<double>() : run.operator()<float>();
  device::check_cuda(cudaGetLastError(), "gradient of a bias by distance");
}

}  // namespace fovea::tile::kernels
