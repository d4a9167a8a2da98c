#include "ops/cuda/features.cuh"
#include "ops/cuda/largest.cuh"

namespace fovea {
namespace {

using namespace device;  // NOLINT

// What is left of a number in a tensor of a dtype.
template <class R>
__device__ R rounded(R x, DType dtype) {
  if (dtype == DType::bf16) return static_cast<R>(__bfloat162float(__float2bfloat16_rn(static_cast<float>(x))));
  if (dtype == DType::f16) return static_cast<R>(__half2float(__float2half_rn(static_cast<float>(x))));
  return x;
}

// du of each item from its features y and their gradients; the sum that |z|^2 / 2 and c receive.
template <class R>
struct VjpFeatures {
  FeatureMap map;
  Stabilizer stabilizer;
  bool pull_shift, packs;
  R size, add;
  FeatureChunk chunk;
  std::int64_t r;
  Elements<R> y, dy;
  const R* weight;            // (b, n, heads) or null
  const std::int32_t* peaks;  // the same
  R *d_weight, *sums;         // (b, n, heads); null: not wanted
  Elements<R> du;             // (items, r)
  R* total;                   // (items)

  template <class G>
  __device__ void operator()(const G& g) const {
    const std::int64_t index = chunk.item(g.row).index;
    const R factor = weight == nullptr ? R(1) : weight[index];
    R sum = packs ? vjp<kPack>(g, index, factor) : vjp<1>(g, index, factor);
    sum = map == FeatureMap::exponential ? g.sum(sum) : R(0);
    if (d_weight != nullptr) vjp_weight(g, index, factor);
    g.sync();
    if (g.lane > 0) return;
    total[g.row] = sum;
    if (map != FeatureMap::exponential || !pull_shift) return;
    if (stabilizer == Stabilizer::row) {
      const std::int64_t at = g.row * r + peaks[index];
      du.put(at, du[at] - sum);
    }
    if (sums != nullptr) sums[index] = sum;
  }

  template <int kCount, class G>
  __device__ R vjp(const G& g, std::int64_t index, R factor) const {
    const bool waves = map == FeatureMap::waves;
    const std::int64_t first = index * (waves ? 2 * r : r);
    const R floor = rounded(add * factor, y.dtype);  // what a feature of 0 looks like
    R sum = 0;
    for (std::int64_t l = g.lane * kCount; l < r; l += g.lanes * kCount) {
      R a[kCount], ga[kCount], b[kCount], gb[kCount];
      load(y, first + l, a);
      load(dy, first + l, ga);
      if (waves) load(y, first + r + l, b);
      if (waves) load(dy, first + r + l, gb);
#pragma unroll
      for (int k = 0; k < kCount; ++k) {
        if (waves)
          a[k] = b[k] * ga[k] - a[k] * gb[k];
        else if (map == FeatureMap::relu)
          a[k] = a[k] > floor ? size * factor * ga[k] : R(0);
        else
          a[k] = (a[k] - floor) * ga[k];
        sum += a[k];
      }
      store(du, g.row * r + l, a);
    }
    return sum;
  }

  template <class G>
  __device__ void vjp_weight(const G& g, std::int64_t index, R factor) const {
    const std::int64_t width = map == FeatureMap::waves ? 2 * r : r;
    R dot = 0;
    for (std::int64_t l = g.lane; l < width; l += g.lanes) dot += y[index * width + l] * dy[index * width + l];
    dot = g.sum(dot);
    if (g.lane == 0) d_weight[index] = factor == 0 ? R(0) : dot / factor;
  }
};

// dx of each item from dz, the gradient of gain * z.
template <class R>
struct VjpInput {
  bool unit, subtract_norm;
  R scale;
  FeatureChunk chunk;
  std::int64_t d;
  const R *z, *dz, *total, *length;  // of the items
  const R* gain;                     // (groups, d) or null
  HeadRows<R> dx;

  template <class G>
  __device__ void operator()(const G& g) const {
    const FeatureChunk::Item item = chunk.item(g.row);
    const auto upstream = [&](std::int64_t c) {
      return gain == nullptr ? dz[g.row * d + c] : dz[g.row * d + c] * gain[item.group * d + c];
    };
    R factor = scale, along = subtract_norm ? total[g.row] : R(0);
    if (unit) {
      R dot = 0;
      for (std::int64_t c = g.lane; c < d; c += g.lanes) dot += z[g.row * d + c] * upstream(c);
      dot = g.sum(dot);
      const R own = length[g.row], whole = own + static_cast<R>(kUnitEps);
      factor = scale / whole;
      along = own > 0 ? dot * whole / (own * scale * scale) : R(0);
    }
    const std::int64_t to = dx.at(item.row, item.head);
    for (std::int64_t c = g.lane; c < d; c += g.lanes)
      dx.of.put(to + c, (upstream(c) - z[g.row * d + c] * along) * factor);
  }
};

// Gradient of c = max u of a sequence and head: given to the direction and the row that have it.
template <class R>
struct VjpTops {
  const ListedSequence* sequences;
  std::int64_t heads, per_group, r, d;
  R scale;
  const R *sums, *tops;       // (b, n, heads)
  const std::int32_t* peaks;  // the same
  const R* directions;        // (groups, r, d)
  HeadRows<R> dx;

  template <class G>
  __device__ void operator()(const G& g) const {
    const ListedSequence rows = sequences[g.row / heads];
    const std::int64_t head = g.row % heads, first = rows.first * heads + head;
    R total = 0;
    for (std::int64_t i = g.lane; i < rows.count; i += g.lanes) total += sums[first + i * heads];
    total = g.sum(total);
    const std::int64_t at = largest_of<R>(g, rows.count, [&](std::int64_t i) { return tops[first + i * heads]; }).place;
    const R* direction = directions + (head / per_group * r + peaks[first + at * heads]) * d;
    const std::int64_t to = dx.at(rows.first + at, head);
    for (std::int64_t c = g.lane; c < d; c += g.lanes) dx.of.put(to + c, dx.of[to + c] - total * direction[c] * scale);
  }
};

// d_gain (groups, d) += z dz, summed over the items of each group.
template <class R>
void vjp_gain(const Context& context, const FeatureScratch<R>& scratch, const Tensor& dz, const Tensor& d_gain) {
  const R *z = pointer<R>(scratch.z), *upstream = pointer<R>(dz);
  R* const to = pointer<R>(d_gain);
  const std::int64_t items = dz.dim(1), d = dz.dim(2);
  column_sums(
      context, {items, dz.dim(0) * d},
      [=] __device__(std::int64_t i, std::int64_t c) -> R {
        const std::int64_t at = (c / d * items + i) * d + c % d;
        return z[at] * upstream[at];
      },
      [=] __device__(std::int64_t c, R sum) { to[c] += sum; });
}

template <class R>
void vjp_chunk(const Context& context, const kernels::FeatureBackward& io, const FeatureChunk& chunk,
               const Tensor& sums) {
  const FeatureOptions& options = *io.options;
  const std::int64_t r = io.directions.dim(1), d = io.directions.dim(2);
  const FeatureScratch<R> scratch(context, chunk, io.directions);
  load_rows<R>(context, io, chunk, {}, scratch);
  const Tensor total = Tensor::empty(context, {chunk.items()}, scratch.z.dtype(), Lifetime::scratch);
  rows(context, chunk.items(), r,
       VjpFeatures<R>{options.map, options.stabilizer, options.pull_shift,
                      r % kPack == 0 && has_packs(io.y, 0) && has_packs(io.dy, 0), static_cast<R>(options.size),
                      static_cast<R>(options.add), chunk, r, elements<R>(io.y), elements<R>(io.dy),
                      pointer<R>(io.weight), pointer<std::int32_t>(io.peaks), pointer<R>(io.d_weight), pointer<R>(sums),
                      elements<R>(scratch.u), pointer<R>(total)});
  const Tensor dz = Tensor::empty(context, scratch.z.shape(), scratch.z.dtype(), Lifetime::scratch);
  if (d > 0) kernels::multiply<Device::cuda>(context, {scratch.u, io.directions, dz, {}});
  if (io.d_gain.defined()) vjp_gain<R>(context, scratch, dz, io.d_gain);
  rows(context, chunk.items(), d,
       VjpInput<R>{options.unit, options.subtract_norm, static_cast<R>(options.scale), chunk, d, pointer<R>(scratch.z),
                   pointer<R>(dz), pointer<R>(total), pointer<R>(scratch.length), pointer<R>(io.gain),
                   HeadRows<R>(io.dx)});
}

template <class R>
void run(const Context& context, const kernels::FeatureBackward& io) {
  const ListedRows sequences(context, io.options->rows, io.x.shape());
  const bool has_tops_vjp = io.tops.defined() && io.options->pull_shift;
  const Tensor sums =
      has_tops_vjp ? Tensor::empty(context, io.tops.shape(), io.tops.dtype(), Lifetime::scratch) : Tensor();
  for_chunks<R>(sequences, io.x, io.directions,
                [&](const FeatureChunk& chunk) { vjp_chunk<R>(context, io, chunk, sums); });
  if (!has_tops_vjp) return;
  const std::int64_t heads = io.x.dim(2);
  rows(context, sequences.view().count * heads, sequences.longest(),
       VjpTops<R>{sequences.view().list, heads, heads / io.directions.dim(0), io.directions.dim(1),
                  io.directions.dim(2), static_cast<R>(io.options->scale), pointer<R>(sums), pointer<R>(io.tops),
                  pointer<std::int32_t>(io.peaks), pointer<R>(io.directions), HeadRows<R>(io.dx)});
}

}  // namespace

template <>
void kernels::features_backward<Device::cuda>(const Context& context, const FeatureBackward& io) {
  visit_wide(io.x.dtype(), [&]<class R>() { run<R>(context, io); });
}

}  // namespace fovea
