#include <array>
#include <limits>

#include "ops/cuda/features.cuh"
#include "ops/cuda/largest.cuh"
#include "policy/sine_cosine.h"

namespace fovea {
namespace {

using namespace device;  // NOLINT

// Products u of an item's row with the r directions.
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
};

// The c of e^(u - c) that all rows share: known, or found on the card.
struct SharedShift {
  double known;
  const double* found;  // null: none
  __device__ double value() const { return found == nullptr ? known : *found; }
};

// c of a row and what is done with e^(u - c).
template <class R>
struct FinishFeatures {
  FeatureMap map;
  Stabilizer stabilizer;
  bool subtract_norm, packs;
  R unit, size, add;
  SharedShift shift;
  FeatureChunk chunk;
  Products<R> products;
  const R *half_norm, *tops, *weight;  // tops, weight: (b, n, heads) or null
  std::int32_t* peaks;                 // null: not wanted
  Elements<R> y;

  template <class G>
  __device__ void operator()(const G& g) const {
    const std::int64_t index = chunk.item(g.row).index;
    const bool by_row = map == FeatureMap::exponential && stabilizer == Stabilizer::row;
    R c = static_cast<R>(shift.value()) * unit;
    if (by_row) c = products.largest(g) * unit;
    if (peaks != nullptr) {
      const auto peak =
          largest_of<R>(g, products.r, [&](std::int64_t l) { return products.u[g.row * products.r + l]; });
      if (g.lane == 0) peaks[index] = static_cast<std::int32_t>(peak.place);
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
          const math::SineCosine<R> wave = math::sine_cosine(u[k]);
          u[k] = size * factor * wave.sine;
          second[k] = size * factor * wave.cosine;
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

struct FoundShift {
  double known;
  Tensor found;  // f64 scalar; undefined: not looked for
  SharedShift view() const { return {known, pointer<double>(found)}; }
};

// With what must be taken off an exponent for the longest direction, see FeatureOptions.
template <class R>
FoundShift find_shift(const Context& context, const FeatureOptions& options, const Tensor& directions) {
  const double largest = options.largest_exponent, known = options.shift;
  if (largest == math::kInfinity<double>) return {known, {}};
  const std::int64_t count = directions.dim(0) * directions.dim(1), d = directions.dim(2);
  const Tensor norms = Tensor::empty(context, {count}, DType::f64, Lifetime::scratch),
               shift = Tensor::empty(context, {}, DType::f64, Lifetime::scratch);
  const R* const w = pointer<R>(directions);
  double *const half_norm = pointer<double>(norms), *const to = pointer<double>(shift);
  rows(context, count, d, [=] __device__(const auto& g) {
    double sum = 0.0;
    for (std::int64_t c = g.row * d + g.lane; c < (g.row + 1) * d; c += g.lanes)
      sum += 0.5 * static_cast<double>(w[c]) * static_cast<double>(w[c]);
    sum = g.sum(sum);
    if (g.lane == 0) half_norm[g.row] = sum;
  });
  rows(context, 1, count, [=] __device__(const auto& g) {
    double most = 0.0;
    for (std::int64_t l = g.lane; l < count; l += g.lanes) most = fmax(most, half_norm[l]);
    most = g.max(most);
    if (g.lane == 0) *to = known + fmax(0.0, most - largest);
  });
  return {known, shift};
}

template <class R>
void run(const Context& context, const kernels::FeatureForward& io) {
  const FeatureOptions& options = *io.options;
  const ListedRows sequences(context, options.rows, io.x.shape());
  const FoundShift shift = find_shift<R>(context, options, io.directions);
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
                           static_cast<R>(options.size),
                           static_cast<R>(options.add),
                           shift.view(),
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
  SharedShift shift;
  std::uint8_t* found;

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
    if (g.lane == 0 && !(static_cast<double>(squares / 2) + shift.value() <= kFaint)) *found = 1;
  }
};

// The stabilizers of a sequence and head in place of the largest exponents of its rows.
template <class R>
struct Settle {
  const ListedSequence* sequences;
  std::int64_t heads;
  R unit;
  SharedShift shared;
  const R* norms;  // (b, n, heads): |z|^2 / 2
  R *c, *log_decay, *state_scale;

  __device__ R shift() const { return static_cast<R>(shared.value()) * unit; }
  __device__ bool fades(std::int64_t at) const { return !(static_cast<double>(norms[at]) + shared.value() <= kFaint); }
  template <class G>
  __device__ void operator()(const G& g) const {
    const ListedSequence rows = sequences[g.row / heads];
    const std::int64_t head = g.row % heads, first = rows.first * heads + head;
    int faint = 0;
    for (std::int64_t i = g.lane; i < rows.count; i += g.lanes) faint |= fades(first + i * heads) ? 1 : 0;
    const bool fading = g.max(faint) > 0;
    R last = fading ? std::numeric_limits<R>::lowest() : shift();
    if (log_decay != nullptr)
      last = in_order(g, first, rows.count, last);
    else
      last = all_at_once(g, first, rows.count, last, fading);
    if (g.lane == 0) state_scale[rows.number * heads + head] = exp((last - shift()) / unit);
  }

  template <class G>
  __device__ R all_at_once(const G& g, std::int64_t first, std::int64_t count, R last, bool fading) const {
    for (std::int64_t i = g.lane; fading && i < count; i += g.lanes) {
      const R own = c[first + i * heads];
      last = own > last ? own : last;  // NaN stays with its row
    }
    last = g.max(last);
    for (std::int64_t i = g.lane; i < count; i += g.lanes) c[first + i * heads] = last;
    return last;
  }

  // What a row asks for by itself.
  __device__ R wanted(std::int64_t at) const { return fades(at) && !(shift() < c[at]) ? c[at] : shift(); }

  // The largest so far, and by how much it grows. Every warp has its part of the rows.
  template <class G>
  __device__ R in_order(const G& g, std::int64_t first, std::int64_t count, R last) const {
    constexpr int kWarps = G::lanes / 32;
    const int warp = g.lane / 32, lane = g.lane % 32;
    const std::int64_t part = (count + G::lanes - 1) / G::lanes * 32, begin = warp * part,
                       end = begin + part < count ? begin + part : count;
    R own = std::numeric_limits<R>::lowest();
    for (std::int64_t i = begin + lane; i < end; i += 32) {
      const R value = wanted(first + i * heads);
      own = value > own ? value : own;
    }
    __shared__ R of_warps[kThreads / 32];
    R* const of_warp = of_warps + (kWarps == 1 ? threadIdx.x / 32 : 0);  // a warp by itself has one
    own = warp_max(own);
    g.sync();
    if (lane == 0) of_warp[warp] = own;
    g.sync();
    R before = last;
    for (int w = 0; w < kWarps; ++w) {
      if (w < warp && of_warp[w] > before) before = of_warp[w];
      if (of_warp[w] > last) last = of_warp[w];
    }
    scan(lane, first, begin, end, before);
    return last;
  }

  __device__ void scan(int lane, std::int64_t first, std::int64_t begin, std::int64_t end, R before) const {
    for (; begin < end; begin += 32) {
      const std::int64_t i = begin + lane, at = first + i * heads;
      R so_far = before;
      if (i < end)
        if (const R value = wanted(at); value > before) so_far = value;
#pragma unroll
      for (int step = 1; step < 32; step *= 2) {
        const R other = __shfl_up_sync(0xffffffffu, so_far, step);
        if (lane >= step && other > so_far) so_far = other;
      }
      const R neighbour = __shfl_up_sync(0xffffffffu, so_far, 1), from = lane == 0 ? before : neighbour;
      if (i < end) log_decay[at] = i == 0 ? R(0) : (from - so_far) / unit;
      if (i < end) c[at] = so_far;
      before = __shfl_sync(0xffffffffu, so_far, 31);
    }
  }
};

template <class R>
void rescue(const Context& context, const kernels::FeatureRescue& io) {
  const ListedRows sequences(context, io.options->rows, io.x.shape());
  const FoundShift shift = find_shift<R>(context, *io.options, io.directions);
  const std::int64_t heads = io.x.dim(2);
  const FeatureChunk all{0, sequences.rows(), heads, heads, sequences.view()};
  io.needed.fill(0.0);
  rows(context, all.items(), io.x.dim(3),
       FindFading<R>{all, HeadRows<R>(io.x), io.x.dim(3), static_cast<R>(io.options->scale), shift.view(),
                     pointer<std::uint8_t>(io.needed)});
  if (!io.always && answer<std::uint8_t>(context, io.needed) == 0) return;
  const Tensor norms = Tensor::empty(context, io.shifts.shape(), io.shifts.dtype(), Lifetime::scratch);
  row_tops<R>(context, io, {}, sequences, {io.shifts, norms});
  io.state_scale.fill(1.0);
  rows(context, sequences.view().count * heads, sequences.longest(),
       Settle<R>{sequences.view().list, heads, static_cast<R>(feature_unit(io.options->map)), shift.view(),
                 pointer<R>(norms), pointer<R>(io.shifts), pointer<R>(io.log_decay), pointer<R>(io.state_scale)});
}

}  // namespace

template <>
void kernels::features<Device::cuda>(const Context& context, const FeatureForward& io) {
  visit_wide(io.x.dtype(), [&]<class R>() { run<R>(context, io); });
}

template <>
void kernels::find_rescue<Device::cuda>(const Context& context, const FeatureRescue& io) {
  visit_wide(io.x.dtype(), [&]<class R>() { rescue<R>(context, io); });
}

}  // namespace fovea
