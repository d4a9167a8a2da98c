#include <array>
#include <limits>

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

// The largest of a sequence and head in place of each row's own.
template <class R>
struct SpreadTops {
  const ListedSequence* sequences;
  std::int64_t heads;
  const R* tops;
  R* out;

  template <class G>
  __device__ void operator()(const G& g) const {
    const ListedSequence rows = sequences[g.row / heads];
    const std::int64_t first = rows.first * heads + g.row % heads;
    R top = -math::kInfinity<R>;
    for (std::int64_t i = g.lane; i < rows.count; i += g.lanes) {
      const R own = tops[first + i * heads];
      top = own > top ? own : top;  // NaN stays with its row
    }
    top = g.max(top);
    for (std::int64_t i = g.lane; i < rows.count; i += g.lanes) out[first + i * heads] = top;
  }
};

// f(chunk, its scratch) with the products u of the chunk's rows.
template <class R, class Io, class F>
void project(const Context& context, const Io& io, const Tensor& gain, const ListedRows& sequences, const F& f) {
  for_chunks<R>(sequences, io.x, io.directions, [&](const FeatureChunk& chunk) {
    const FeatureScratch<R> scratch(context, chunk, io.directions);
    load_rows<R>(context, io, chunk, gain, scratch);
    kernels::multiply<Device::cuda>(context, {scratch.z, io.directions.transpose(1, 2), scratch.u, {}});
    f(chunk, scratch);
  });
}

// Into tops, and norms where they are defined: as RowTops.
template <class R, class Io>
void row_tops(const Context& context, const Io& io, const Tensor& gain, const ListedRows& sequences,
              const std::array<Tensor, 2>& tops_and_norms) {
  const R unit = static_cast<R>(feature_unit(io.options->map));
  project<R>(context, io, gain, sequences, [&](const FeatureChunk& chunk, const FeatureScratch<R>& scratch) {
    rows(context, chunk.items(), io.directions.dim(1),
         RowTops<R>{chunk,
                    {elements<R>(scratch.u), io.directions.dim(1)},
                    pointer<R>(scratch.half_norm),
                    unit,
                    pointer<R>(tops_and_norms[0]),
                    pointer<R>(tops_and_norms[1])});
  });
}

// c of each row where it is the largest u of a head in the sequence, (b, n, heads); io.tops: each row's own.
template <class R>
Tensor common_tops(const Context& context, const kernels::FeatureForward& io, const ListedRows& sequences) {
  row_tops<R>(context, io, io.gain, sequences, {io.tops, {}});
  const Tensor out = Tensor::empty(context, io.tops.shape(), io.tops.dtype(), Lifetime::scratch);
  const std::int64_t heads = io.x.dim(2);
  rows(context, sequences.view().count * heads, sequences.longest(),
       SpreadTops<R>{sequences.view().list, heads, pointer<R>(io.tops), pointer<R>(out)});
  return out;
}

template <class R>
void run(const Context& context, const kernels::FeatureForward& io) {
  const FeatureOptions& options = *io.options;
  const ListedRows sequences(context, options.rows, io.x.shape());
  const Tensor tops = io.tops.defined() ? common_tops<R>(context, io, sequences) : io.shifts;
  const std::int64_t r = io.directions.dim(1);
  const bool packs = r % kPack == 0 && has_packs(io.y, 0);
  project<R>(context, io, io.gain, sequences, [&](const FeatureChunk& chunk, const FeatureScratch<R>& scratch) {
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

// |z|^2 / 2 from which on nothing may be left of an exponential in f32.
constexpr double kFaint = 30.0;

// Sets `found` where a row fades.
template <class R>
struct FindFading {
  FeatureChunk chunk;
  HeadRows<R> x;
  std::int64_t d;
  R scale;
  double shift;
  std::int32_t* found;

  template <class G>
  __device__ void operator()(const G& g) const {
    const FeatureChunk::Item item = chunk.item(g.row);
    const std::int64_t from = x.at(item.row, item.head);
    R squares = 0;
    for (std::int64_t c = g.lane; c < d; c += g.lanes) {
      const R value = x.of[from + c] * scale;
      squares += value * value;
    }
    squares = g.sum(squares);
    if (g.lane == 0 && !(static_cast<double>(squares / 2) + shift <= kFaint)) *found = 1;
  }
};

// The stabilizers of a sequence and head in place of the largest exponents of its rows; a warp goes through the rows.
template <class R>
struct Settle {
  const ListedSequence* sequences;
  std::int64_t heads;
  R unit, shift;   // shift: times the unit
  const R* norms;  // (b, n, heads): |z|^2 / 2
  R *c, *log_decay, *state_scale;

  __device__ bool fades(std::int64_t at) const {
    return !(static_cast<double>(norms[at]) + static_cast<double>(shift / unit) <= kFaint);
  }
  template <class G>
  __device__ void operator()(const G& g) const {
    const ListedSequence rows = sequences[g.row / heads];
    const std::int64_t head = g.row % heads, first = rows.first * heads + head;
    int faint = 0;
    for (std::int64_t i = g.lane; i < rows.count; i += g.lanes) faint |= fades(first + i * heads) ? 1 : 0;
    const bool fading = g.max(faint) > 0;
    R last = fading ? std::numeric_limits<R>::lowest() : shift;
    if (log_decay != nullptr)
      last = in_order(g, first, rows.count, last);
    else
      last = all_at_once(g, first, rows.count, last, fading);
    if (g.lane == 0) state_scale[rows.number * heads + head] = exp((last - shift) / unit);
  }

  template <class G>
  __device__ R all_at_once(const G& g, std::int64_t first, std::int64_t count, R last, bool fading) const {
    for (std::int64_t i = g.lane; fading && i < count; i += g.lanes) {
      const R own = c[first + i * heads];
      last = own > last ? own : last;
    }
    last = g.max(last);
    for (std::int64_t i = g.lane; i < count; i += g.lanes) c[first + i * heads] = last;
    return last;
  }
  // The largest so far, and by how much it grows.
  template <class G>
  __device__ R in_order(const G& g, std::int64_t first, std::int64_t count, R last) const {
    for (std::int64_t begin = 0; begin < count; begin += g.lanes) {
      const std::int64_t i = begin + g.lane, at = first + i * heads;
      R so_far = std::numeric_limits<R>::lowest();
      if (i < count) so_far = fades(at) && !(shift < c[at]) ? c[at] : shift;
      so_far = so_far > last ? so_far : last;  // NaN stays with its row
#pragma unroll
      for (int step = 1; step < 32; step *= 2) {
        const R before = __shfl_up_sync(0xffffffffu, so_far, step);
        if (g.lane >= step && before > so_far) so_far = before;
      }
      const R before = __shfl_up_sync(0xffffffffu, so_far, 1);
      const R from = g.lane == 0 ? last : before;
      if (i < count) log_decay[at] = i == 0 ? R(0) : (from - so_far) / unit;
      if (i < count) c[at] = so_far;
      last = __shfl_sync(0xffffffffu, so_far, 31);
    }
    return last;
  }
};

template <class R>
bool is_fading(const Context& context, const kernels::FeatureRescue& io, const ListedRows& sequences) {
  const Tensor found = Tensor::zeros(context, {1}, DType::i32, Lifetime::scratch);
  const FeatureChunk all{0, sequences.rows(), io.x.dim(2), io.x.dim(2), sequences.view()};
  rows(context, all.items(), io.x.dim(3),
       FindFading<R>{all, HeadRows<R>(io.x), io.x.dim(3), static_cast<R>(io.options->scale), io.options->shift,
                     pointer<std::int32_t>(found)});
  return answer<std::int32_t>(context, found) != 0;
}

template <class R>
bool rescue(const Context& context, const kernels::FeatureRescue& io) {
  const ListedRows sequences(context, io.options->rows, io.x.shape());
  if (!is_fading<R>(context, io, sequences)) return false;
  const Tensor norms = Tensor::empty(context, io.shifts.shape(), io.shifts.dtype(), Lifetime::scratch);
  row_tops<R>(context, io, {}, sequences, {io.shifts, norms});
  const R unit = static_cast<R>(feature_unit(io.options->map));
  const std::int64_t heads = io.x.dim(2);
  io.state_scale.fill(1.0);
  constexpr std::int64_t kWarp = 32;
  rows(context, sequences.view().count * heads, kWarp,
       Settle<R>{sequences.view().list, heads, unit, static_cast<R>(io.options->shift) * unit, pointer<R>(norms),
                 pointer<R>(io.shifts), pointer<R>(io.log_decay), pointer<R>(io.state_scale)});
  return true;
}

}  // namespace

template <>
void kernels::features<Device::cuda>(const Context& context, const FeatureForward& io) {
  visit_wide(io.x.dtype(), [&]<class R>() { run<R>(context, io); });
}

template <>
bool kernels::find_rescue<Device::cuda>(const Context& context, const FeatureRescue& io) {
  return visit_wide(io.x.dtype(), [&]<class R>() { return rescue<R>(context, io); });
}

}  // namespace fovea
