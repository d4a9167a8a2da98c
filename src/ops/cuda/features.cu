#include "ops/cuda/features.cuh"
#include "policy/turn.h"

namespace fovea {
namespace {

using namespace device;  // NOLINT

// Products u of an item's row with the r directions: what a maximum over them is, and where.
template <class R>
struct Products {
  Elements<R> u;
  std::int64_t r;

  template <class G>
  __device__ R largest(const G& g) const {
    R top = -math::kInfinity<R>;
    for (std::int64_t l = g.lane; l < r; l += g.lanes) top = larger(top, u[g.row * r + l]);
    return g.max(top);
  }
  // The first of those that are `top`.
  template <class G>
  __device__ std::int64_t place(const G& g, R top) const {
    double first = -static_cast<double>(r);
    for (std::int64_t l = r - 1 - g.lane; l >= 0; l -= g.lanes)
      if (u[g.row * r + l] == top) first = -static_cast<double>(l);
    first = -g.max(first);
    return first < static_cast<double>(r) ? static_cast<std::int64_t>(first) : 0;
  }
};

// c of a row and what is done with e^(u - c).
template <class R>
struct FinishFeatures {
  FeatureMap map;
  Stabilizer stabilizer;
  bool subtract_norm, packs;
  R unit, shift, size, add;
  FeatureChunk chunk;
  Products<R> products;
  const R *half_norm, *tops, *weight;  // tops, weight: (b, n, heads) or null
  std::int32_t* peaks;                 // null: not wanted
  Elements<R> y;

  template <class G>
  __device__ void operator()(const G& g) const {
    const std::int64_t index = chunk.item(g.row).index;
    const bool by_row = map == FeatureMap::exponential && stabilizer == Stabilizer::row;
    R c = shift * unit;
    if (by_row || peaks != nullptr) {
      const R top = products.largest(g);
      if (by_row) c = top * unit;
      if (peaks != nullptr) {
        const std::int64_t place = products.place(g, top);
        if (g.lane == 0) peaks[index] = static_cast<std::int32_t>(place);
      }
    }
    if (tops != nullptr) c = tops[index];
    if (subtract_norm) c += half_norm[g.row] * unit;
    const R factor = weight == nullptr ? R(1) : weight[index];
    if (packs)
      write<kPack>(g, index, c, factor);
    else
      write<1>(g, index, c, factor);
  }

  template <int kCount, class G>
  __device__ void write(const G& g, std::int64_t index, R c, R factor) const {
    const std::int64_t r = products.r, width = map == FeatureMap::waves ? 2 * r : r;
    for (std::int64_t l = g.lane * kCount; l < r; l += g.lanes * kCount) {
      R u[kCount], second[kCount];
      load(products.u, g.row * r + l, u);
#pragma unroll
      for (int k = 0; k < kCount; ++k) {
        if (map == FeatureMap::waves) {
          const math::Turn<R> turn = math::turn(u[k]);
          u[k] = size * factor * turn.sine;
          second[k] = size * factor * turn.cosine;
        } else {
          const R value = map == FeatureMap::relu ? (u[k] < 0 ? R(0) : u[k]) : math::exp2_low(u[k] * unit - c);
          u[k] = size * factor * value + add * factor;
        }
      }
      store(y, index * width + l, u);
      if (map == FeatureMap::waves) store(y, index * width + r + l, second);
    }
  }
};

// The largest u of each row, without |z|^2 / 2 where `norms` are wanted, which then stand there.
template <class R>
struct RowTops {
  FeatureChunk chunk;
  Products<R> products;
  const R* half_norm;
  R unit;
  R *tops, *norms;  // (b, n, heads)

  template <class G>
  __device__ void operator()(const G& g) const {
    const R top = products.largest(g);
    if (g.lane > 0) return;
    const std::int64_t index = chunk.item(g.row).index;
    tops[index] = norms == nullptr ? top * unit : (top - half_norm[g.row]) * unit;
    if (norms != nullptr) norms[index] = half_norm[g.row];
  }
};

// The largest of a sequence and head in place of each row's own; with norms: `shift` where none of them is so large
// that nothing would be left of an exponential in f32.
template <class R>
struct SpreadTops {
  static constexpr double kFaint = 30.0;
  const SequenceRows* sequences;
  std::int64_t heads;
  R shift;
  const R *tops, *norms;
  R* out;

  template <class G>
  __device__ void operator()(const G& g) const {
    const SequenceRows rows = sequences[g.row / heads];
    const std::int64_t first = rows.first * heads + g.row % heads;
    R top = -math::kInfinity<R>, faint = 0;
    for (std::int64_t i = g.lane; i < rows.count; i += g.lanes) {
      const R own = tops[first + i * heads];
      top = own > top ? own : top;  // NaN stays with its row
      if (norms != nullptr && !(static_cast<double>(norms[first + i * heads]) <= kFaint)) faint = 1;
    }
    top = g.max(top);
    if (norms != nullptr && g.max(faint) == 0) top = shift;
    for (std::int64_t i = g.lane; i < rows.count; i += g.lanes) out[first + i * heads] = top;
  }
};

// f(chunk, its scratch) with the products u of the chunk's rows.
template <class R, class F>
void project(const Context& context, const kernels::FeatureForward& io, const FeatureSequences& sequences, const F& f) {
  for_chunks<R>(sequences, io.x, io.directions, [&](const FeatureChunk& chunk) {
    const FeatureScratch<R> scratch(context, chunk, io.directions);
    load_rows<R>(context, io, chunk, io.gain, scratch);
    kernels::multiply<Device::cuda>(context, {scratch.z, io.directions.transpose(1, 2), scratch.u, {}});
    f(chunk, scratch);
  });
}

// c of each row where it is common to a sequence, (b, n, heads); `own`: each row's alone, to be written, or undefined.
template <class R>
Tensor common_tops(const Context& context, const kernels::FeatureForward& io, const FeatureSequences& sequences,
                   const Tensor& own) {
  const Shape shape{io.x.dim(0), io.x.dim(1), io.x.dim(2)};
  const auto room = [&] { return Tensor::empty(context, shape, wide_type(io.x.dtype()), Lifetime::scratch); };
  const bool rescues = io.options->stabilizer == Stabilizer::rescue;
  const Tensor tops = own.defined() ? own : room(), norms = rescues ? room() : Tensor(), out = room();
  const R unit = static_cast<R>(feature_unit(io.options->map));
  project<R>(context, io, sequences, [&](const FeatureChunk& chunk, const FeatureScratch<R>& scratch) {
    rows(context, chunk.items(), io.directions.dim(1),
         RowTops<R>{chunk,
                    {elements<R>(scratch.u), io.directions.dim(1)},
                    pointer<R>(scratch.half_norm),
                    unit,
                    pointer<R>(tops),
                    pointer<R>(norms)});
  });
  const std::int64_t heads = io.x.dim(2);
  rows(context, sequences.size() * heads, sequences.longest(),
       SpreadTops<R>{sequences.data(), heads, static_cast<R>(io.options->shift) * unit, pointer<R>(tops),
                     pointer<R>(norms), pointer<R>(out)});
  return out;
}

template <class R>
void run(const Context& context, const kernels::FeatureForward& io) {
  const FeatureOptions& options = *io.options;
  const FeatureSequences sequences(context, options, io.x.shape());
  const bool is_common = io.tops.defined() || options.stabilizer == Stabilizer::rescue;
  const Tensor tops = is_common ? common_tops<R>(context, io, sequences, io.tops) : Tensor();
  const std::int64_t r = io.directions.dim(1);
  const bool packs = r % kPack == 0 && has_packs(io.y, 0);
  project<R>(context, io, sequences, [&](const FeatureChunk& chunk, const FeatureScratch<R>& scratch) {
    rows(context, chunk.items(), r,
         FinishFeatures<R>{options.map,
                           options.stabilizer,
                           options.subtract_norm,
                           packs,
                           static_cast<R>(feature_unit(options.map)),
                           static_cast<R>(options.shift),
                           static_cast<R>(options.size),
                           static_cast<R>(options.add),
                           chunk,
                           {elements<R>(scratch.u), r},
                           pointer<R>(scratch.half_norm),
                           pointer<R>(tops),
                           pointer<R>(io.weight),
                           pointer<std::int32_t>(io.peaks),
                           elements<R>(io.y)});
  });
}

}  // namespace

template <>
void kernels::features<Device::cuda>(const Context& context, const FeatureForward& io) {
  visit_wide(io.x.dtype(), [&]<class R>() { run<R>(context, io); });
}

}  // namespace fovea
