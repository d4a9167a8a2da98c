#pragma once

#include "core/wide.h"
#include "gemm/gemm_kernels.h"
#include "ops/cuda/listed_rows.cuh"
#include "ops/cuda/packs.cuh"
#include "ops/features_kernels.h"
#include "ops/features_policy.h"

// Features are made of the rows of all sequences, one after the other, in chunks whose products stay in the card's
// cache. A chunk's scratch is (groups, rows, heads of a group, ...): heads that share directions are one product.
namespace fovea::device {

// Places [first, first + count), all heads of them: items.
struct FeatureChunk {
  std::int64_t first, count, heads, per_group;
  ListedRows::View rows;

  struct Item {
    std::int64_t row, head, group, index;  // row of (b n); index into (b, n, heads)
  };
  __device__ std::int64_t place(std::int64_t i) const { return first + i % (count * per_group) / per_group; }
  __device__ Item item(std::int64_t i) const {
    const std::int64_t of_group = count * per_group, group = i / of_group, rest = i % of_group;
    const std::int64_t row = rows.row(place(i)), head = group * per_group + rest % per_group;
    return {row, head, group, row * heads + head};
  }
  std::int64_t items() const { return count * heads; }
};

// z of items, with the gain where there is one, |z|^2 / 2 and |x|.
template <class R>
struct LoadFeatureRows {
  FeatureChunk chunk;
  HeadRows<R> x;
  std::int64_t d;
  R scale;
  bool unit;
  const R* gain;  // (groups, d) or null
  R *z, *half_norm, *length;

  template <class G>
  __device__ void operator()(const G& g) const {
    const FeatureChunk::Item item = chunk.item(g.row);
    const std::int64_t from = x.at(item.row, item.head);
    R squares = 0;
    for (std::int64_t c = g.lane; c < d; c += g.lanes) {
      const R value = unit ? x.of[from + c] : x.of[from + c] * scale;
      squares += value * value;
    }
    squares = g.sum(squares);
    const R own = sqrt(squares), factor = unit ? scale / (own + static_cast<R>(kUnitEps)) : scale;
    for (std::int64_t c = g.lane; c < d; c += g.lanes) {
      const R value = x.of[from + c] * factor;
      z[g.row * d + c] = gain == nullptr ? value : value * gain[item.group * d + c];
    }
    if (g.lane > 0) return;
    half_norm[g.row] = squares / 2;
    length[g.row] = own;
  }
};

// The scratch of a chunk.
template <class R>
struct FeatureScratch {
  FeatureScratch(const Context& context, const FeatureChunk& chunk, const Tensor& directions)
      : z(room(context, {directions.dim(0), per_group(chunk, directions), directions.dim(2)})),
        u(room(context, {directions.dim(0), per_group(chunk, directions), directions.dim(1)})),
        half_norm(room(context, {chunk.items()})),
        length(room(context, {chunk.items()})) {}

  Tensor z, u, half_norm, length;  // u: products with the directions

 private:
  static Tensor room(const Context& context, const Shape& shape) {
    return Tensor::empty(context, shape, sizeof(R) == 8 ? DType::f64 : DType::f32, Lifetime::scratch);
  }
  static std::int64_t per_group(const FeatureChunk& chunk, const Tensor& directions) {
    return chunk.items() / directions.dim(0);
  }
};

// f(chunk) until all rows are through.
template <class R, class F>
void for_chunks(const ListedRows& sequences, const Tensor& x, const Tensor& directions, const F& f) {
  constexpr std::int64_t kBytes = std::int64_t{32} << 20;
  const std::int64_t heads = x.dim(2), rows = heads == 0 ? 0 : sequences.rows();
  const std::int64_t of_row =
      heads * (directions.dim(1) + 2 * directions.dim(2)) * static_cast<std::int64_t>(sizeof(R));
  const std::int64_t most = std::max<std::int64_t>(1, kBytes / std::max<std::int64_t>(1, of_row));
  for (std::int64_t first = 0; first < rows; first += most)
    f(FeatureChunk{first, std::min(most, rows - first), heads, heads / directions.dim(0), sequences.view()});
}

template <class R, class Io>
void load_rows(const Context& context, const Io& io, const FeatureChunk& chunk, const Tensor& gain,
               const FeatureScratch<R>& scratch) {
  const FeatureOptions& options = *io.options;
  const LoadFeatureRows<R> load{chunk,
                                HeadRows<R>(io.x),
                                io.x.dim(3),
                                static_cast<R>(options.scale),
                                options.unit,
                                pointer<R>(gain),
                                pointer<R>(scratch.z),
                                pointer<R>(scratch.half_norm),
                                pointer<R>(scratch.length)};
  rows(context, chunk.items(), io.x.dim(3), load);
}

}  // namespace fovea::device
