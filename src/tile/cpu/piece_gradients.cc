#include <vector>

#include "core/parallel.h"
#include "tile/piece_gradients_kernels.h"

namespace fovea::tile::kernels {
namespace {

constexpr std::int64_t kGrain = 1024;  // elements of one item and head per task

template <class T>
void add_rows(const Context& context, const PieceGradients& io) {
  const std::int64_t heads = io.parts.dim(1), width = io.parts.dim(2), items = io.to.dim(0), rows = io.to.dim(1);
  parallel_ranges(context, width, kGrain, [&](std::int64_t begin, std::int64_t end) {
    std::vector<T> sums(static_cast<std::size_t>(items * rows * (end - begin)));
    const auto sum = [&](std::int64_t item, std::int64_t row) {
      return sums.data() + (item * rows + row) * (end - begin);
    };
    const T* part = io.parts.data<T>() + begin;
    for (const Piece& piece : io.pieces)
      for (std::int64_t head = 0; head < heads; ++head, part += width) {
        T* to = sum(items == 1 ? 0 : piece.batch, rows == 1 ? 0 : head);
        for (std::int64_t i = 0; i < end - begin; ++i) to[i] = static_cast<T>(to[i] + part[i]);
      }
    for (std::int64_t item = 0; item < items; ++item)
      for (std::int64_t row = 0; row < rows; ++row) {
        T* to = io.to.data<T>() + item * io.to.stride(0) + row * io.to.stride(1) + begin;
        for (std::int64_t i = 0; i < end - begin; ++i) to[i] = static_cast<T>(to[i] + sum(item, row)[i]);
      }
  });
}

}  // namespace

template <>
void add_piece_gradients<Device::cpu>(const Context& context, const PieceGradients& io) {
  visit_float(io.to.dtype(), [&]<class T>() { add_rows<T>(context, io); });
}

}  // namespace fovea::tile::kernels
