// What happens to a score tile between its product and its weights: bias, ALiBi, mask; and dropout of the weights.
// Tiles are [keys x lanes], lanes are queries. Each modifier is one short pass over a tile in cache, taken only when
// the problem or the block has it.

#if defined(FOVEA_TILE_CPU_SCORE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef FOVEA_TILE_CPU_SCORE_INL_H_
#undef FOVEA_TILE_CPU_SCORE_INL_H_
#else
#define FOVEA_TILE_CPU_SCORE_INL_H_
#endif

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "hwy/highway.h"
#include "policy/alibi.h"
#include "policy/dropout.h"
#include "simd/philox-inl.h"
#include "simd/product.h"
#include "simd/transpose-inl.h"
#include "tile/contract.h"
#include "tile/cpu/kernel.h"
#include "tile/cpu/rows-inl.h"

HWY_BEFORE_NAMESPACE();
namespace fovea {
namespace tile {
namespace HWY_NAMESPACE {
using namespace fovea::HWY_NAMESPACE;  // NOLINT: the same target's primitives

// Lanes are handled in chunks of one cache line, a trip count the compiler knows.
template <class R>
inline constexpr std::int64_t kChunk = static_cast<std::int64_t>(kPad<R>);

// A tile of pairs: queries [q0, q0 + qc) and keys [k0, k0 + kc), local rows of the piece.
struct TileAt {
  std::int64_t q0, qc, k0, kc;
  std::int64_t lanes;  // qc padded, and the row length of every tile
  std::int32_t mask;   // Plan::kWhole or a mask of the plan

  // Goes on to other keys.
  void enter(const Unit& unit, std::int32_t key_block, std::int32_t mask_of_block) {
    k0 = std::int64_t{key_block} * unit.plan().tile_k;
    kc = std::min<std::int64_t>(unit.plan().tile_k, unit.piece->nk - k0);
    mask = mask_of_block;
  }
};

// Rows of vector operands, padded.
template <class R>
std::int64_t padded_width(std::int64_t width) {
  return static_cast<std::int64_t>(padded<R>(static_cast<std::size_t>(width)));
}

// The queries of a tile; its keys are filled in by those who have any.
template <class R>
TileAt query_tile(const Unit& unit, std::int32_t query_block) {
  TileAt at{};
  at.q0 = std::int64_t{query_block} * unit.plan().tile_q;
  at.qc = std::min<std::int64_t>(unit.plan().tile_q, unit.piece->nq - at.q0);
  at.lanes = padded_width<R>(at.qc);
  at.mask = Plan::kWhole;
  return at;
}

// to[j][i] = from[i][j] for i < rows, j < columns; nothing else is touched.
template <class R>
struct Rectangle {
  R* data;
  std::int64_t ld;
};
template <class R>
void transpose_tile(Rectangle<const R> from, Rectangle<R> to, std::int64_t rows, std::int64_t columns) {
  transpose_within<R>({from.data, static_cast<std::size_t>(from.ld)}, {to.data, static_cast<std::size_t>(to.ld)},
                      static_cast<std::size_t>(rows), static_cast<std::size_t>(columns));
}

// Rows of a tile's queries as lanes: to [width, lanes], with zeros in the lanes of no query.
template <class R>
void turn_across(Rectangle<const R> rows, const TileAt& at, std::int64_t width, R* to) {
  if (at.qc < at.lanes) std::fill_n(to, width * at.lanes, R{0});
  transpose_tile<R>(rows, {to, at.lanes}, at.qc, width);
}

// The caller's rows under a tile's queries, for one head of a piece.
struct QueryRows {
  const Problem& problem;
  const Piece& piece;
  std::int64_t head;

  template <class Pointer>
  Rows<Pointer> operator()(const Array<Pointer>& array, const TileAt& at, std::int64_t width) const {
    return of(array, at, width, problem.dtype);
  }
  // Of o and its kin.
  template <class Pointer>
  Rows<Pointer> outputs(const Array<Pointer>& array, const TileAt& at) const {
    return of(array, at, problem.d_v, problem.output_type());
  }

 private:
  template <class Pointer>
  Rows<Pointer> of(const Array<Pointer>& array, const TileAt& at, std::int64_t width, DType dtype) const {
    return {element(array, dtype, piece.batch, piece.query_row(at.q0), head), dtype, array.row * piece.q_step, at.qc,
            width};
  }
};
// The caller's rows of one key block.
template <class Pointer>
Rows<Pointer> key_rows(const Problem& problem, const Array<Pointer>& array, const Unit& unit, std::int32_t key_block,
                       std::int64_t width) {
  const Piece& piece = *unit.piece;
  const std::int64_t k0 = std::int64_t{key_block} * unit.plan().tile_k;
  return {element(array, problem.dtype, piece.batch, piece.key_row(k0), unit.kv_head), problem.dtype,
          array.row * piece.k_step, std::min<std::int64_t>(unit.plan().tile_k, piece.nk - k0), width};
}

// Calls f(j, c) for every key row j and every chunk of lanes [c, c + kChunk) of a tile.
template <class R, class F>
HWY_INLINE void for_each_chunk(const TileAt& at, F&& f) {
  for (std::int64_t j = 0; j < at.kc; ++j)
    for (std::int64_t c = 0; c < at.lanes; c += kChunk<R>) f(j, c);
}

// The score modifiers of one piece and head. Scores are in units of 1 / unit.
template <class R>
class ScoreModifier {
 public:
  ScoreModifier(const Problem& problem, const Piece& piece, std::int64_t head, R unit) : piece_(&piece), unit_(unit) {
    if (problem.alibi != nullptr) {
      alibi_ = true;
      slope_ = static_cast<R>(problem.alibi[head]) * unit;
    }
    if (problem.bias.data != nullptr) {
      bias_ = static_cast<const R*>(problem.bias.data) +
              (piece.batch * problem.bias.batch + head * problem.bias.head + piece.q0 * problem.bias.query +
               piece.k0 * problem.bias.key + piece.bias_at);
      bias_query_ = problem.bias.query * piece.q_step;
      bias_key_ = problem.bias.key * piece.k_step;
    }
  }

  bool touches(std::int32_t mask) const { return bias_ != nullptr || alibi_ || mask != Plan::kWhole; }
  // May pairs of this tile weigh nothing, so that what they multiply must not matter?
  bool may_hide(std::int32_t mask) const { return bias_ != nullptr || mask != Plan::kWhole; }

  // `spare` is a tile of scratch.
  void apply(const TileAt& at, R* scores, R* spare) const {
    if (bias_ != nullptr) add_bias(at, scores, spare);
    if (alibi_) add_alibi(at, scores);
    if (at.mask != Plan::kWhole) hide(at, scores);
  }

 private:
  HWY_NOINLINE void add_bias(const TileAt& at, R* HWY_RESTRICT scores, R* HWY_RESTRICT spare) const {
    const R* source = bias_ + (at.q0 * bias_query_ + at.k0 * bias_key_);
    if (bias_query_ == 1) {
      for (std::int64_t j = 0; j < at.kc; ++j) std::copy_n(source + j * bias_key_, at.qc, spare + j * at.lanes);
    } else if (bias_key_ == 1 && bias_query_ != 0) {
      transpose_tile<R>({source, bias_query_}, {spare, at.lanes}, at.qc, at.kc);
    } else {
      for (std::int64_t j = 0; j < at.kc; ++j)
        for (std::int64_t i = 0; i < at.qc; ++i) spare[j * at.lanes + i] = source[i * bias_query_ + j * bias_key_];
    }
    for (std::int64_t j = 0; j < at.kc; ++j)
      for (std::int64_t i = at.qc; i < at.lanes; ++i) spare[j * at.lanes + i] = 0;
    const R unit = unit_;
    for_each_chunk<R>(at, [&](std::int64_t j, std::int64_t c) {
      R* HWY_RESTRICT s = scores + j * at.lanes + c;
      const R* HWY_RESTRICT b = spare + j * at.lanes + c;
      for (std::int64_t l = 0; l < kChunk<R>; ++l)  // -infinity hides a pair even when its score is NaN
        s[l] = b[l] == -math::kInfinity<R> ? b[l] : s[l] + unit * b[l];
    });
  }

  HWY_NOINLINE void add_alibi(const TileAt& at, R* HWY_RESTRICT scores) const {
    const R slope = slope_, step = static_cast<R>(piece_->q_step);
    for_each_chunk<R>(at, [&](std::int64_t j, std::int64_t c) {
      R* HWY_RESTRICT s = scores + j * at.lanes + c;
      const R first = static_cast<R>(piece_->distance(at.q0 + c, at.k0 + j));
      for (int l = 0; l < kChunk<R>; ++l) s[l] = Alibi::apply(s[l], slope, first + step * static_cast<R>(l));
    });
  }

  HWY_NOINLINE void hide(const TileAt& at, R* HWY_RESTRICT scores) const {
    const Plan& plan = *piece_->plan;
    const std::uint64_t* bits = plan.mask(at.mask);
    const std::int64_t words = plan.words_per_key();
    for_each_chunk<R>(at, [&](std::int64_t j, std::int64_t c) {
      R* HWY_RESTRICT s = scores + j * at.lanes + c;
      const auto kept = static_cast<std::uint32_t>(bits[j * words + c / 64] >> (c % 64));
      for (std::uint32_t l = 0; l < kChunk<R>; ++l) s[l] = (kept >> l) & 1u ? s[l] : -math::kInfinity<R>;
    });
  }

  const Piece* piece_;
  R unit_;
  bool alibi_ = false;
  R slope_ = 0;
  const R* bias_ = nullptr;
  std::int64_t bias_query_ = 0, bias_key_ = 0;
};

// to[i] *= by[i]
template <class R>
HWY_INLINE void multiply(R* HWY_RESTRICT to, const R* HWY_RESTRICT by, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) to[i] *= by[i];
}

// Dropout of the weights of one piece and head.
class WeightDropout {
 public:
  WeightDropout(const Problem& problem, const Piece& piece, std::int64_t head)
      : active_(problem.dropout.p > 0), piece_(&piece), dropout_(&problem.dropout) {
    if (active_)
      pairs_ =
          PairDropout::of(dropout_->p, dropout_->seed, dropout_->stream).at(piece.batch, dropout_->first_head + head);
  }

  bool active() const { return active_; }

  // kept[j][i] = `factor` or 0. Philox gives four neighbouring rows of keys at once; a tile may begin and end inside
  // such a quad, and with a step it skips some of its rows.
  template <class R>
  HWY_NOINLINE void draw(const TileAt& at, R* HWY_RESTRICT kept, R factor) const {
    const auto row_of = [&](std::int64_t j) { return dropout_->first_key + piece_->key_row(at.k0 + j); };
    const auto step = static_cast<std::uint32_t>(piece_->q_step);
    alignas(64) std::uint32_t words[4 * kPhiloxCounters];
    for (std::int64_t j = 0, end; j < at.kc; j = end) {
      const std::int64_t quad = row_of(j) / 4;
      for (end = j + 1; end < at.kc && row_of(end) / 4 == quad;) ++end;
      for (std::int64_t c = 0; c < at.lanes; c += kPhiloxCounters) {
        const auto query = static_cast<std::uint32_t>(dropout_->first_query + piece_->query_row(at.q0 + c));
        const std::uint64_t counter = pairs_.counter(query, static_cast<std::uint32_t>(quad));
        philox_planes(PhiloxRun{pairs_.key, counter, pairs_.high, step}, words);
        for (std::int64_t i = j; i < end; ++i)
          keep(words + row_of(i) % 4 * kPhiloxCounters, factor, kept + i * at.lanes + c, at.lanes - c);
      }
    }
  }

  template <class R>
  HWY_NOINLINE void apply(const TileAt& at, R* HWY_RESTRICT weights, R* HWY_RESTRICT spare, R factor = 1) const {
    draw(at, spare, factor);
    multiply(weights, spare, at.kc * at.lanes);
  }

 private:
  // The lanes that are left of one draw: all, or half of them where lines hold eight doubles.
  template <class R>
  HWY_INLINE void keep(const std::uint32_t* HWY_RESTRICT words, R factor, R* HWY_RESTRICT to, std::int64_t left) const {
    for (std::int64_t c = 0; c < std::min<std::int64_t>(left, kPhiloxCounters); c += kChunk<R>)
      for (std::int64_t l = c; l < c + kChunk<R>; ++l) to[l] = words[l] >= pairs_.threshold ? factor : R{0};
  }

  bool active_;
  const Piece* piece_;
  const Dropout* dropout_;
  PairDropout pairs_{};
};

}  // namespace HWY_NAMESPACE
}  // namespace tile
}  // namespace fovea
HWY_AFTER_NAMESPACE();

#endif  // FOVEA_TILE_CPU_SCORE_INL_H_
