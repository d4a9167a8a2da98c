#include <limits>

#include "ops/cuda/features.cuh"
#include "ops/cuda/largest.cuh"
#include "ops/cuda/sequences.cuh"
#include "policy/sine_cosine.h"

namespace fovea {
namespace {

using namespace device;  // NOLINT

// Products u of an item's row with the r directions.
template <class R>
struct Products {
  Elements<R> u;
  std::int64_t r;

  // Of u unit + level; level: null for none.
  template <class G>
  __device__ R largest(const G& g, R unit, const R* level) const {
    R top = -math::kInfinity<R>;
    for (std::int64_t l = g.lane; l < r; l += g.lanes)
      top = larger(top, u[g.row * r + l] * unit + (level == nullptr ? R(0) : level[l]));
    return g.max(top);
  }
};

// The levels of rows; data: null for none.
template <class R>
struct LevelRows {
  const R* data;
  const FeatureLevels::Span* spans;
  bool in_order;
  std::int64_t heads, r;  // heads: of the keys

  __device__ const R* of(const FeatureChunk& chunk, std::int64_t i) const {
    if (data == nullptr) return nullptr;
    const FeatureChunk::Item item = chunk.item(i);
    const ListedSequence& sequence = chunk.rows.sequence(chunk.place(i));
    const std::int64_t row = level_row(spans[sequence.number], in_order, item.row - sequence.first);
    return data + (row * heads + item.head * heads / chunk.heads) * r;
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
  LevelRows<R> levels;
  std::int32_t* peaks;  // null: not wanted
  Elements<R> y;

  template <class G>
  __device__ void operator()(const G& g) const {
    const std::int64_t index = chunk.item(g.row).index;
    const bool by_row = map == FeatureMap::exponential && stabilizer == Stabilizer::row;
    R c = static_cast<R>(shift.value()) * unit;
    const R* const level = levels.of(chunk, g.row);
    if (by_row) c = products.largest(g, unit, level);
    if (peaks != nullptr) {
      const auto peak =
          largest_of<R>(g, products.r, [&](std::int64_t l) { return products.u[g.row * products.r + l]; });
      if (g.lane == 0) peaks[index] = static_cast<std::int32_t>(peak.place);
    }
    if (tops != nullptr) c = tops[index];
    if (subtract_norm) c += half_norm[g.row] * unit;
    const R factor = weight == nullptr ? R(1) : weight[index];
    const Row row{index, c, factor, stabilizer == Stabilizer::level ? R(-1) : R(1), level};
    if (packs)
      write<kPack>(g, row);
    else
      write<1>(g, row);
  }

  struct Row {
    std::int64_t index;
    R c, factor, sign;
    const R* level;  // null: none
  };
  template <int kCount, class G>
  __device__ void write(const G& g, const Row& row) const {
    const std::int64_t index = row.index;
    const R factor = row.factor;
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
          const R value =
              map == FeatureMap::relu
                  ? (u[k] < 0 ? R(0) : u[k])
                  : math::exp2_low(u[k] * unit - row.c + (row.level == nullptr ? R(0) : row.sign * row.level[l + k]));
          u[k] = size * factor * value + add * factor;
        }
      }
      store(y, index * width + l, u);
      if (map == FeatureMap::waves) store(y, index * width + r + l, second);
    }
  }
};

// The largest u of each row.
template <class R>
struct RowTops {
  FeatureChunk chunk;
  Products<R> products;
  R unit;
  R* tops;  // (b, n, heads)

  template <class G>
  __device__ void operator()(const G& g) const {
    const R top = products.largest(g, unit, nullptr);
    if (g.lane == 0) tops[chunk.item(g.row).index] = top;
  }
};

// u - |z|^2 / 2 of each row.
template <class R>
struct RowExponents {
  FeatureChunk chunk;
  Products<R> products;
  const R* half_norm;
  R unit;
  R* exponents;  // (b, n, heads, r)

  template <class G>
  __device__ void operator()(const G& g) const {
    const std::int64_t r = products.r, to = chunk.item(g.row).index * r;
    for (std::int64_t l = g.lane; l < r; l += g.lanes)
      exponents[to + l] = (products.u[g.row * r + l] - half_norm[g.row]) * unit;
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

// c of each row where it is the largest u of a head in the sequence, (b, n, heads); io.tops: each row's own.
template <class R>
Tensor common_tops(const Context& context, const kernels::FeatureForward& io, const ListedRows& sequences) {
  project<R>(context, io, io.gain, sequences, [&](const FeatureChunk& chunk, const FeatureScratch<R>& scratch) {
    rows(context, chunk.items(), io.directions.dim(1),
         RowTops<R>{chunk,
                    {elements<R>(scratch.u), io.directions.dim(1)},
                    static_cast<R>(feature_unit(io.options->map)),
                    pointer<R>(io.tops)});
  });
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
  if (options.stabilizer == Stabilizer::level) return {0.0, {}};
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
  const Tensor tops = io.tops.defined() ? common_tops<R>(context, io, sequences) : Tensor();
  const FeatureLevels& levels = options.levels;
  const Uploaded<FeatureLevels::Span> spans = upload(context, levels.spans);
  const LevelRows<R> level_rows{pointer<R>(levels.rows), spans.data(), levels.in_order,
                                levels.defined() ? levels.rows.dim(1) : 1, io.directions.dim(1)};
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
                           level_rows,
                           pointer<std::int32_t>(io.peaks),
                           elements<R>(io.y)});
  });
}

// The smallest row of each sequence that fades, in place of their number.
template <class R>
struct FindFading {
  FeatureChunk chunk;
  HeadRows<R> x;
  std::int64_t d;
  R scale;
  SharedShift shift;
  std::int64_t* first;  // (sequences)

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
    if (g.lane > 0 || static_cast<double>(squares / 2) + shift.value() <= kFaint) return;
    const ListedSequence& sequence = chunk.rows.sequence(chunk.place(g.row));
    atomicMin(reinterpret_cast<unsigned long long*>(first + sequence.number),
              static_cast<unsigned long long>(item.row - sequence.first));
  }
};

template <class R>
void first_fading(const Context& context, const kernels::FadingRows& io) {
  const std::vector<Sequences::Rows>& list = io.options->rows;
  const ListedRows sequences(context, list, io.x.shape());
  const Uploaded<Sequences::Rows> counts = upload(context, list);
  const Sequences::Rows* const of = counts.data();
  std::int64_t* const first = pointer<std::int64_t>(io.first);
  each(context, io.first.numel(), [=] __device__(std::int64_t s) { first[s] = of[s].count; });
  const FoundShift shift = find_shift<R>(context, *io.options, io.directions);
  const std::int64_t heads = io.x.dim(2);
  const FeatureChunk all{0, sequences.rows(), heads, heads, sequences.view()};
  rows(context, all.items(), io.x.dim(3),
       FindFading<R>{all, HeadRows<R>(io.x), io.x.dim(3), static_cast<R>(io.options->scale), shift.view(), first});
}

// Levels of a (head, feature) column of a sequence, whose rows are cut into pieces: the largest of each piece, then
// what is so before each, then row after row in all pieces at once.
template <class R>
struct LevelColumns {
  static constexpr R kNone = std::numeric_limits<R>::lowest();

  RowPieces::View pieces;
  const FeatureLevels::Span* spans;
  const std::int64_t* fading;  // the first row of each sequence that fades
  bool in_order;
  std::int64_t width, state_width;  // width: heads r
  R unit;
  SharedShift shared;
  const R *exponents, *state;  // (b n, width); (sequences, width, state_width) or null
  R *of_pieces, *levels, *log_decay, *state_in, *state_out;

  __device__ static R larger_of(R own, R before) { return own > before ? own : before; }  // NaN stays with its row
  __device__ R shift() const { return static_cast<R>(shared.value()) * unit; }

  __device__ void find(std::int64_t i) const {
    const std::int64_t piece = i / width, c = i % width;
    R top = kNone;
    for (std::int64_t row = pieces.list[piece].begin; row < pieces.list[piece].end; ++row)
      top = larger_of(exponents[row * width + c], top);
    of_pieces[i] = top;
  }

  __device__ void join(std::int64_t i) const {
    const std::int64_t sequence = i / width, c = i % width, begin = pieces.first[sequence],
                       end = pieces.first[sequence + 1];
    const R sum = state == nullptr ? R(0) : state[(i + 1) * state_width - 1];
    const R before = sum > 0 ? shift() + log2(sum < kLeast ? kLeast : sum) : kNone;
    R level = before;
    for (std::int64_t piece = begin; piece < end; ++piece) {
      const R own = of_pieces[piece * width + c];
      of_pieces[piece * width + c] = level;
      level = larger_of(own, level);
    }
    const bool fades = begin < end && fading[sequence] < pieces.list[end - 1].end - pieces.list[begin].begin;
    if (!in_order && !fades && begin < end) level = shift();
    levels[spans[sequence].floor * width + c] = in_order ? before : level;
    state_in[i] = before == kNone ? R(0) : exp2(shift() - (in_order ? before : level));
    state_out[i] = level == kNone ? R(0) : exp2(level - shift());
  }

  __device__ void spread(std::int64_t i) const {
    const std::int64_t piece = i / width, c = i % width;
    R level = of_pieces[i];
    for (std::int64_t row = pieces.list[piece].begin; row < pieces.list[piece].end; ++row) {
      const R now = larger_of(exponents[row * width + c], level);
      log_decay[row * width + c] = level == kNone ? R(0) : (level - now) / unit;
      levels[row * width + c] = level = now;
    }
  }

 private:
  static constexpr R kLeast = std::numeric_limits<R>::min();
};

template <class R>
void run_columns(const Context& context, std::int64_t ranges, const LevelColumns<R>& columns) {
  const std::int64_t width = columns.width, pieces = columns.pieces.pieces;
  each(context, pieces * width, [=] __device__(std::int64_t i) { columns.find(i); });
  each(context, ranges * width, [=] __device__(std::int64_t i) { columns.join(i); });
  if (columns.in_order) each(context, pieces * width, [=] __device__(std::int64_t i) { columns.spread(i); });
}

template <class R>
void levels(const Context& context, const kernels::LevelTensors& io) {
  const FeatureOptions& options = *io.options;
  const FeatureLevels& levels = io.levels;
  const ListedRows sequences(context, options.rows, io.x.shape());
  const std::int64_t heads = io.x.dim(2), r = io.directions.dim(1), all = io.x.dim(0) * io.x.dim(1);
  const R unit = static_cast<R>(feature_unit(options.map));
  const auto scratch_of = [&](const Shape& shape) {
    return Tensor::empty(context, shape, levels.rows.dtype(), Lifetime::scratch);
  };
  const Tensor exponents = scratch_of({all, heads, r});
  project<R>(context, io, {}, sequences, [&](const FeatureChunk& chunk, const FeatureScratch<R>& scratch) {
    rows(context, chunk.items(), r,
         RowExponents<R>{
             chunk, {elements<R>(scratch.u), r}, pointer<R>(scratch.half_norm), unit, pointer<R>(exponents)});
  });
  std::vector<RowPieces::Rows> ranges;
  for (std::size_t s = 0; s < options.rows.size(); ++s)
    ranges.push_back({levels.spans[s].first, levels.spans[s].first + options.rows[s].count});
  const RowPieces pieces(context, ranges);
  const Tensor of_pieces = scratch_of({pieces.view().pieces, heads, r});
  const Uploaded<FeatureLevels::Span> spans = upload(context, levels.spans);
  const Tensor fading = Tensor::empty(context, {std::ssize(ranges)}, DType::i64, Lifetime::scratch);
  first_fading<R>(context, {io.options, io.x, io.directions, fading});
  const FoundShift shift = find_shift<R>(context, options, io.directions);
  run_columns<R>(context, std::ssize(ranges),
                 {pieces.view(), spans.data(), pointer<std::int64_t>(fading), levels.in_order, heads * r,
                  io.state.defined() ? io.state.dim(3) : 0, unit, shift.view(), pointer<R>(exponents),
                  pointer<R>(io.state), pointer<R>(of_pieces), pointer<R>(levels.rows), pointer<R>(io.log_decay),
                  pointer<R>(io.state_in), pointer<R>(io.state_out)});
}

}  // namespace

template <>
void kernels::features<Device::cuda>(const Context& context, const FeatureForward& io) {
  visit_wide(io.x.dtype(), [&]<class R>() { run<R>(context, io); });
}

template <>
void kernels::find_fading<Device::cuda>(const Context& context, const FadingRows& io) {
  visit_wide(io.x.dtype(), [&]<class R>() { first_fading<R>(context, io); });
}

template <>
void kernels::find_levels<Device::cuda>(const Context& context, const LevelTensors& io) {
  visit_wide(io.x.dtype(), [&]<class R>() { levels<R>(context, io); });
}

}  // namespace fovea
