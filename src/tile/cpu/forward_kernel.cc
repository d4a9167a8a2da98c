#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tile/cpu/forward_kernel.cc"
#include "hwy/foreach_target.h"
// After foreach_target.h, which compiles this file once per target.
#include "hwy/highway.h"
#include "simd/product-inl.h"
#include "tile/cpu/kernel.h"
#include "tile/cpu/rows-inl.h"
#include "tile/cpu/score-inl.h"
#include "tile/cpu/scratch.h"

HWY_BEFORE_NAMESPACE();
namespace fovea {
namespace tile {
namespace HWY_NAMESPACE {

// Packed keys and values of a unit, row by row as they are: both are broadcast operands. No padding is needed, and rows
// beyond the sequence do not exist.
template <class R>
struct PackedKeys {
  R* k;                  // [keys, d_k]
  R* v;                  // [keys, d_v]
  std::uint8_t* finite;  // per key block: no infinity or NaN in v
  std::size_t bytes;

  PackedKeys(const Problem& problem, const Unit& unit) {
    Carver carver(unit.packed);
    k = carver.take<R>(unit.keys() * problem.d_k);
    v = carver.take<R>(unit.keys() * problem.d_v);
    finite = carver.take<std::uint8_t>(unit.key_blocks());
    bytes = carver.used();
  }
};

// One thread's tiles.
template <class R>
struct ForwardScratch {
  R* q;       // [d_k, lanes], transposed and scaled
  R* s;       // [tile_k, lanes], scores, then weights
  R* o;       // [d_v, lanes], the output so far
  R* rows;    // [tile_q, max(d_k, d_v)], on the way in and out
  R* spare;   // [tile_k, lanes], a bias tile or a dropout mask
  R* top;     // [lanes]
  R* sum;     // [lanes]
  R* factor;  // [lanes]
  std::size_t bytes;

  ForwardScratch(const Problem& problem, TileSize tile, void* base) {
    const auto lanes = static_cast<std::int64_t>(padded<R>(static_cast<std::size_t>(tile.query)));
    Carver carver(base);
    q = carver.take<R>(problem.d_k * lanes);
    s = carver.take<R>(tile.key * lanes);
    o = carver.take<R>(problem.d_v * lanes);
    rows = carver.take<R>(tile.query * std::max(problem.d_k, problem.d_v));
    const bool extra = problem.bias.data != nullptr || problem.dropout.p > 0;
    spare = carver.take<R>(extra ? tile.key * lanes : 0);
    top = carver.take<R>(lanes);
    sum = carver.take<R>(lanes);
    factor = carver.take<R>(lanes);
    bytes = carver.used();
  }
};

// Passes over a tile [keys x lanes]. Keys are the outer loop, so that a lane's sum is not needed again at once: with
// lanes outside, the d 32 forward was a tenth slower. The pointers are parameters because only there the compiler
// trusts `restrict`.

template <class R>
HWY_NOINLINE void raise_top(const R* HWY_RESTRICT s, R* HWY_RESTRICT top, std::int64_t keys, std::int64_t lanes) {
  for (std::int64_t j = 0; j < keys; ++j, s += lanes)
    for (std::int64_t c = 0; c < lanes; c += kChunk<R>)
      for (std::int64_t l = c; l < c + kChunk<R>; ++l) top[l] = math::larger(s[l], top[l]);
}

// `factor` holds the maximum before this tile; it becomes the factor of what was collected under it.
template <class W, class R>
HWY_NOINLINE void fold(R* HWY_RESTRICT factor, const R* HWY_RESTRICT top, R* HWY_RESTRICT sum, std::int64_t lanes) {
  for (std::int64_t c = 0; c < lanes; c += kChunk<R>)
    for (std::int64_t l = c; l < c + kChunk<R>; ++l) {
      factor[l] = W::fold(factor[l], top[l]);
      sum[l] *= factor[l];
    }
}

template <class W, class R>
HWY_NOINLINE void weigh(R* HWY_RESTRICT s, const R* HWY_RESTRICT top, R* HWY_RESTRICT sum, std::int64_t keys,
                        std::int64_t lanes) {
  for (std::int64_t j = 0; j < keys; ++j, s += lanes)
    for (std::int64_t c = 0; c < lanes; c += kChunk<R>)
      for (std::int64_t l = c; l < c + kChunk<R>; ++l) {
        s[l] = W::weigh(s[l], top[l]);
        sum[l] += s[l];
      }
}

// One query block of one head: for every key block of its row in the plan,
//   S^T = K Q^T, modified; fold the row maxima; P = weigh(S); O^T = O^T factor + V^T P^T.
// Lanes are queries throughout, so maxima and sums are vertical, and the rescaling of O is part of loading it.
template <class R, class W>
class QueryTile {
 public:
  QueryTile(const ForwardCall& call, const Unit& unit, std::int64_t head, std::byte* scratch)
      : problem_(call.problem),
        io_(call.io),
        piece_(*unit.piece),
        head_(head),
        rows_{call.problem, *unit.piece, head},
        keys_(call.problem, unit),
        key_begin_(unit.key_begin()),
        first_key_block_(unit.island.key_begin),
        t_(call.problem, {unit.plan().tile_q, unit.plan().tile_k}, scratch),
        modifier_(call.problem, *unit.piece, head, W::template kUnit<R>),
        dropout_(call.problem, *unit.piece, head),
        keep_(call.keep) {}

  void run(std::int32_t query_block, Prefetch* next) {
    const Plan& plan = *piece_.plan;
    next_ = next;
    at_.q0 = std::int64_t{query_block} * plan.tile_q;
    at_.qc = std::min<std::int64_t>(plan.tile_q, piece_.nq - at_.q0);
    at_.lanes = static_cast<std::int64_t>(padded<R>(static_cast<std::size_t>(at_.qc)));
    open();
    for (const Plan::Entry& entry : plan.row(query_block))
      for (std::int32_t block = entry.block; block < entry.block + entry.count; ++block) visit(block, entry.mask);
    close();
  }

 private:
  void open() {
    const R scale = static_cast<R>(problem_.scale) * W::template kUnit<R>;
    load_rows<R>(rows_(io_.q, at_, problem_.d_k), scale, t_.rows, problem_.d_k);
    if (at_.qc < at_.lanes) std::fill_n(t_.q, problem_.d_k * at_.lanes, R{0});
    turn_tile<R>({t_.rows, problem_.d_k}, {t_.q, at_.lanes}, at_.qc, problem_.d_k);
    std::fill_n(t_.top, at_.lanes, W::template kFloor<R>);
    std::fill_n(t_.sum, at_.lanes, R{0});
    std::fill_n(t_.o, problem_.d_v * at_.lanes, R{0});
  }

  void visit(std::int32_t key_block, std::int32_t mask) {
    at_.k0 = std::int64_t{key_block} * piece_.plan->tile_k;
    at_.kc = std::min<std::int64_t>(piece_.plan->tile_k, piece_.nk - at_.k0);
    at_.mask = mask;
    if constexpr (W::kHasTop) std::copy_n(t_.top, at_.lanes, t_.factor);
    score();
    if constexpr (W::kHasTop) fold<W>(t_.factor, t_.top, t_.sum, at_.lanes);
    weigh<W>(t_.s, t_.top, t_.sum, at_.kc, at_.lanes);
    if (dropout_.active()) dropout_.apply(at_, t_.s, t_.spare);
    gather(keys_.finite[key_block - first_key_block_] != 0 || !modifier_.may_hide(mask));
  }

  // S^T = K Q^T; t_.top becomes the maximum so far.
  void score() {
    const auto d = static_cast<std::size_t>(problem_.d_k), lanes = static_cast<std::size_t>(at_.lanes);
    const R* k = keys_.k + (at_.k0 - key_begin_) * problem_.d_k;
    const Product<R> p{k, d, t_.q, lanes, t_.s, lanes, static_cast<std::size_t>(at_.kc), lanes, d, next_};
    const bool modified = modifier_.touches(at_.mask);
    if (W::kHasTop && !modified) return product<Order::rows>(p, StartZero(), FinishTop<R>{t_.top});
    product<Order::rows>(p, StartZero());
    if (!modified) return;
    modifier_.apply(at_, t_.s, t_.spare);
    if constexpr (W::kHasTop) raise_top(t_.s, t_.top, at_.kc, at_.lanes);
  }

  // O^T = O^T factor + V^T P^T
  void gather(bool safe) {
    const auto d = static_cast<std::size_t>(problem_.d_v), lanes = static_cast<std::size_t>(at_.lanes);
    const R* v = keys_.v + (at_.k0 - key_begin_) * problem_.d_v;
    Product<R> p{v, d, t_.s, lanes, t_.o, lanes, d, lanes, static_cast<std::size_t>(at_.kc), next_};
    if (safe) {
      if constexpr (W::kHasTop)
        product<Order::columns>(p, StartScaled<R>{t_.factor});
      else
        product<Order::columns>(p, StartAdd());
      return;
    }
    if constexpr (W::kHasTop)
      for (std::int64_t i = 0; i < problem_.d_v * at_.lanes; ++i) t_.o[i] *= t_.factor[i % at_.lanes];
    product_hiding(p, Order::columns, true);
  }

  void close() {
    const R dropped = dropout_.active() ? static_cast<R>(DropoutRule::scale(problem_.dropout.p)) : R{1};
    for (std::int64_t l = 0; l < at_.lanes; ++l) t_.factor[l] = W::close(t_.sum[l]) * dropped;
    for (std::int64_t c = 0; c < problem_.d_v; ++c) {
      R* HWY_RESTRICT o = t_.o + c * at_.lanes;
      const R* HWY_RESTRICT factor = t_.factor;
      for (std::int64_t l = 0; l < at_.lanes; ++l) o[l] *= factor[l];
    }
    turn_tile<R>({t_.o, at_.lanes}, {t_.rows, problem_.d_v}, problem_.d_v, at_.qc);
    store_rows<R>(t_.rows, problem_.d_v, R{1}, rows_(io_.o, at_, problem_.d_v), keep_);
    if (W::kHasTop && io_.lse.data != nullptr)
      for (std::int64_t l = 0; l < at_.qc; ++l) {
        void* lse = element(io_.lse, dtype_of<R>, piece_.batch, piece_.q0 + at_.q0 + l, head_);
        *static_cast<R*>(lse) = W::statistic(t_.top[l], t_.sum[l]);
      }
  }

  const Problem& problem_;
  const Forward& io_;
  const Piece& piece_;
  std::int64_t head_;
  QueryRows rows_;
  PackedKeys<R> keys_;
  std::int64_t key_begin_;
  std::int32_t first_key_block_;
  ForwardScratch<R> t_;
  ScoreModifier<R> modifier_;
  WeightDropout dropout_;
  TileAt at_{};
  Prefetch* next_ = nullptr;
  Keep keep_;
};

template <class R>
std::size_t unit_bytes(const Problem& problem, const Unit& unit) {
  return PackedKeys<R>(problem, unit).bytes;
}

template <class R>
std::size_t scratch_bytes(const Problem& problem, TileSize largest) {
  return ForwardScratch<R>(problem, largest, nullptr).bytes;
}

template <class R>
void pack(const ForwardCall& call, const Unit& unit, std::int32_t key_block) {
  const Problem& problem = call.problem;
  const PackedKeys<R> keys(problem, unit);
  const std::int64_t local = std::int64_t{key_block} * unit.plan().tile_k - unit.key_begin();
  const auto load = [&](const In& array, R* to, std::int64_t width) {
    return load_rows<R>(key_rows(problem, array, unit, key_block, width), R{1}, to + local * width, width);
  };
  load(call.io.k, keys.k, problem.d_k);
  keys.finite[key_block - unit.island.key_begin] = load(call.io.v, keys.v, problem.d_v);
}

template <class R, class W>
void attend(const ForwardCall& call, const Unit& unit, HeadBlock queries, std::byte* scratch, Prefetch* next) {
  QueryTile<R, W>(call, unit, queries.head, scratch).run(queries.block, next);
}

template <class R, class W>
struct ForwardTable {
  static constexpr ForwardKernel kKernel{unit_bytes<R>, scratch_bytes<R>, pack<R>, attend<R, W>};
};

const ForwardKernel* find_forward(bool is_double, Weight weight) { return choose<ForwardTable>(is_double, weight); }

}  // namespace HWY_NAMESPACE
}  // namespace tile
}  // namespace fovea
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "core/isa.h"

namespace fovea::tile {
HWY_EXPORT(find_forward);

const ForwardKernel& forward_kernel(const Problem& problem) {
  chosen_isa();  // FOVEA_ISA is read at the first question
  return *HWY_DYNAMIC_DISPATCH(find_forward)(problem.dtype == DType::f64, problem.weight);
}

}  // namespace fovea::tile
#endif  // HWY_ONCE
