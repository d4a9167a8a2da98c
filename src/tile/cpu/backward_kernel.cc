#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tile/cpu/backward_kernel.cc"
#include "hwy/foreach_target.h"
// After foreach_target.h, which compiles this file once per target.
#include "hwy/highway.h"
#include "policy/rela.h"
#include "policy/softmax.h"
#include "simd/product-inl.h"
#include "tile/cpu/kernel.h"
#include "tile/cpu/rows-inl.h"
#include "tile/cpu/score-inl.h"
#include "tile/cpu/scratch.h"

HWY_BEFORE_NAMESPACE();
namespace fovea {
namespace tile {
namespace HWY_NAMESPACE {

// Rows of vector operands, padded.
template <class R>
std::int64_t padded_width(std::int64_t width) {
  return static_cast<std::int64_t>(padded<R>(static_cast<std::size_t>(width)));
}

// Everything of one query head that the key blocks read, and its sums of dq. ld_k, ld_v: padded widths; blocks of the
// transposed copies start every tile_q rows and have their own padded lanes as row length.
template <class R>
struct PackedHead {
  R* q;                    // [queries, ld_k], times scale
  R* q_across;             // per query block [d_k, lanes], times scale and unit: the score operand
  R* d_o;                  // [queries, ld_v]
  R* do_across;            // per query block [d_v, lanes]
  R* dq;                   // [splits, queries, ld_k]
  R* statistic;            // [lanes of all blocks], as the weight policy's `again` wants it
  R* delta;                // the same
  std::uint8_t* finite_q;  // per query block
  std::uint8_t* finite_do;
};

// A unit: keys and values once, and the heads of its group.
template <class R>
class PackedUnit {
 public:
  R* k;                    // [keys, ld_k]: broadcast in the scores, rows in dq
  R* v;                    // [keys, d_v]: broadcast only
  std::uint8_t* finite_k;  // per key block
  std::int64_t ld_k, ld_v, lanes, queries;

  PackedUnit(const BackwardCall& call, const Unit& unit)
      : ld_k(padded_width<R>(call.problem.d_k)),
        ld_v(padded_width<R>(call.problem.d_v)),
        lanes(padded_width<R>(unit.plan().tile_q)),
        queries(unit.queries()),
        splits_(call.splits),
        blocks_(unit.query_blocks()),
        d_k_(call.problem.d_k),
        d_v_(call.problem.d_v),
        heads_(heads_of(call.problem, unit.kv_head)),
        packed_(unit.packed),
        sums_(unit.sums),
        notes_(unit.notes) {
    k = packed_.take<R>(unit.keys() * ld_k);
    v = packed_.take<R>(unit.keys() * d_v_);
    finite_k = notes_.take<std::uint8_t>(unit.key_blocks());
  }

  // Heads are laid out one after the other; asking for one walks over those before it.
  PackedHead<R> head(std::int64_t head) const {
    Carver packed = packed_, sums = sums_, notes = notes_;
    PackedHead<R> out{};
    for (std::int64_t h = heads_.begin; h <= head; ++h) out = take_head(packed, sums, notes);
    return out;
  }

  UnitBytes bytes() const {
    Carver packed = packed_, sums = sums_, notes = notes_;
    for (std::int64_t h = heads_.begin; h < heads_.end; ++h) take_head(packed, sums, notes);
    return {packed.used(), sums.used(), notes.used()};
  }

 private:
  PackedHead<R> take_head(Carver& packed, Carver& sums, Carver& notes) const {
    PackedHead<R> h;
    h.q = packed.take<R>(queries * ld_k);
    h.q_across = packed.take<R>(blocks_ * d_k_ * lanes);
    h.d_o = packed.take<R>(queries * ld_v);
    h.do_across = packed.take<R>(blocks_ * d_v_ * lanes);
    h.dq = sums.take<R>(splits_ * queries * ld_k);
    h.statistic = notes.take<R>(blocks_ * lanes);
    h.delta = notes.take<R>(blocks_ * lanes);
    h.finite_q = notes.take<std::uint8_t>(blocks_);
    h.finite_do = notes.take<std::uint8_t>(blocks_);
    return h;
  }

  std::int64_t splits_, blocks_, d_k_, d_v_;
  HeadRange heads_;
  Carver packed_, sums_, notes_;
};

// One thread's tiles.
template <class R>
struct BackwardScratch {
  R* s;       // [tile_k, lanes]: scores, then weights
  R* ds;      // [tile_k, lanes]: gradients of the weights, then of the scores
  R* spare;   // [tile_k, lanes]: a bias tile or a dropout mask
  R* turned;  // [tile_q, tile_k]: score gradients on their way to d_bias
  R* dk;      // [tile_k, ld_k]
  R* dv;      // [tile_k, ld_v]
  R* rows;    // [tile_q, max(d_k, d_v)]
  std::size_t bytes;

  BackwardScratch(const Problem& problem, TileSize tile, void* base) {
    const std::int64_t lanes = padded_width<R>(tile.query);
    const bool extra = problem.bias.data != nullptr || problem.dropout.p > 0;
    Carver carver(base);
    s = carver.take<R>(tile.key * lanes);
    ds = carver.take<R>(tile.key * lanes);
    spare = carver.take<R>(extra ? tile.key * lanes : 0);
    turned = carver.take<R>(problem.bias.data != nullptr ? std::int64_t{tile.query} * tile.key : 0);
    dk = carver.take<R>(tile.key * padded_width<R>(problem.d_k));
    dv = carver.take<R>(tile.key * padded_width<R>(problem.d_v));
    rows = carver.take<R>(tile.query * std::max(problem.d_k, problem.d_v));
    bytes = carver.used();
  }
};

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

template <class R>
void pack_keys(const BackwardCall& call, const Unit& unit, std::int32_t key_block) {
  const Problem& problem = call.problem;
  const PackedUnit<R> packed(call, unit);
  const std::int64_t local = std::int64_t{key_block} * unit.plan().tile_k - unit.key_begin();
  const auto k = key_rows(problem, call.io.k, unit, key_block, problem.d_k);
  const auto v = key_rows(problem, call.io.v, unit, key_block, problem.d_v);
  packed.finite_k[key_block - unit.island.key_begin] =
      load_rows<R>(k, R{1}, packed.k + local * packed.ld_k, packed.ld_k);
  load_rows<R>(v, R{1}, packed.v + local * problem.d_v, problem.d_v);
}

// Packs one query block of one head.
template <class R, class W>
class QueryPacker {
 public:
  QueryPacker(const BackwardCall& call, const Unit& unit, std::int64_t head, std::int32_t query_block,
              std::byte* scratch)
      : call_(call),
        problem_(call.problem),
        piece_(*unit.piece),
        head_(head),
        unit_(call, unit),
        out_(unit_.head(head)),
        at_(query_tile<R>(unit, query_block)),
        block_(query_block - unit.island.query_begin),
        local_(at_.q0 - unit.query_begin()),
        rows_(BackwardScratch<R>(call.problem, {unit.plan().tile_q, unit.plan().tile_k}, scratch).rows) {}

  void run() {
    const R scale = static_cast<R>(problem_.scale);
    const auto q = rows(call_.io.q, problem_.d_k), d_o = rows(call_.io.d_o, problem_.d_v);
    read_statistics();
    out_.finite_q[block_] = load_rows<R>(q, scale, q_rows(), unit_.ld_k);
    out_.finite_do[block_] = load_rows<R>(d_o, R{1}, do_rows(), unit_.ld_v);
    clear_empty(q_rows(), unit_.ld_k);
    clear_empty(do_rows(), unit_.ld_v);
    if constexpr (W::kHasTop) subtract_outputs();
    // The score operand is rounded as in forward, so that the rebuilt scores have the same bits.
    load_rows<R>(q, scale * W::template kUnit<R>, rows_, problem_.d_k);
    clear_empty(rows_, problem_.d_k);
    turn({rows_, problem_.d_k}, out_.q_across + block_ * problem_.d_k * unit_.lanes, problem_.d_k);
    turn({do_rows(), unit_.ld_v}, out_.do_across + block_ * problem_.d_v * unit_.lanes, problem_.d_v);
    for (std::int64_t split = 0; split < call_.splits; ++split)
      std::fill_n(out_.dq + (split * unit_.queries + local_) * unit_.ld_k, at_.qc * unit_.ld_k, R{0});
  }

 private:
  Rows<const void*> rows(const In& array, std::int64_t width) const {
    return query_rows(problem_, array, piece_, at_, head_, width);
  }
  R statistic_at(const In& array, std::int64_t i) const {
    return *static_cast<const R*>(element(array, dtype_of<R>, piece_.batch, piece_.q0 + at_.q0 + i, head_));
  }
  R* q_rows() const { return out_.q + local_ * unit_.ld_k; }
  R* do_rows() const { return out_.d_o + local_ * unit_.ld_v; }
  R* statistic() const { return out_.statistic + block_ * unit_.lanes; }
  R* delta() const { return out_.delta + block_ * unit_.lanes; }
  bool is_empty(std::int64_t i) const { return W::kHasTop && statistic()[i] == math::kInfinity<R>; }

  void read_statistics() const {
    std::fill_n(statistic(), at_.lanes, math::kInfinity<R>);  // padding lanes weigh nothing
    std::fill_n(delta(), at_.lanes, R{0});
    if constexpr (W::kHasTop)
      for (std::int64_t i = 0; i < at_.qc; ++i) statistic()[i] = W::reopen(statistic_at(call_.io.lse, i));
  }

  // Nothing of an empty row may reach a gradient, not even its NaN.
  void clear_empty(R* rows, std::int64_t ld) const {
    for (std::int64_t i = 0; i < at_.qc; ++i)
      if (is_empty(i)) std::fill_n(rows + i * ld, ld, R{0});
  }

  // delta = rowsum(dO * O) - dLSE
  void subtract_outputs() const {
    load_rows<R>(rows(call_.io.o, problem_.d_v), R{1}, rows_, problem_.d_v);
    for (std::int64_t i = 0; i < at_.qc; ++i) {
      if (is_empty(i)) continue;
      const R* HWY_RESTRICT o = rows_ + i * problem_.d_v;
      const R* HWY_RESTRICT g = do_rows() + i * unit_.ld_v;
      R sum = 0;
#pragma omp simd reduction(+ : sum)
      for (std::int64_t c = 0; c < problem_.d_v; ++c) sum += o[c] * g[c];
      delta()[i] = call_.io.d_lse.data == nullptr ? sum : sum - statistic_at(call_.io.d_lse, i);
    }
  }

  void turn(Matrix<const R*> from, R* to, std::int64_t width) const {
    if (at_.qc < at_.lanes) std::fill_n(to, width * at_.lanes, R{0});
    transpose<R>(from, {to, at_.lanes}, at_.qc, width);
  }

  const BackwardCall& call_;
  const Problem& problem_;
  const Piece& piece_;
  std::int64_t head_;
  PackedUnit<R> unit_;
  PackedHead<R> out_;
  TileAt at_;
  std::int64_t block_, local_;
  R* rows_;
};

template <class R, class W>
void pack_queries(const BackwardCall& call, const Unit& unit, std::int64_t head, std::int32_t query_block,
                  std::byte* scratch) {
  QueryPacker<R, W>(call, unit, head, query_block, scratch).run();
}

// Where the score gradients of one head go when the bias wants them.
template <class R>
struct BiasGradient {
  R* data = nullptr;  // at the piece's first pair
  std::int64_t query = 0, key = 0;
  bool add = false;

  BiasGradient(const BackwardCall& call, const Piece& piece, std::int64_t head) {
    const BiasArray<void*>& bias = call.io.d_bias;
    if (bias.data == nullptr) return;
    data = static_cast<R*>(bias.data) + piece.batch * bias.batch + head * bias.head + piece.q0 * bias.query +
           piece.k0 * bias.key;
    query = bias.query;
    key = bias.key;
    add = call.bias_is_shared;
  }

  // ds is [keys x lanes]; `turned` is scratch of [queries x keys].
  HWY_NOINLINE void take(const TileAt& at, const R* ds, R* turned) const {
    transpose<R>({ds, at.lanes}, {turned, at.kc}, at.kc, at.qc);
    for (std::int64_t i = 0; i < at.qc; ++i) {
      const R* HWY_RESTRICT from = turned + i * at.kc;
      R* to = data + (at.q0 + i) * query + at.k0 * key;
      if (!add && key == 1)
        std::copy_n(from, at.kc, to);
      else
        for (std::int64_t j = 0; j < at.kc; ++j) to[j * key] = (add ? to[j * key] : R{0}) + from[j];
    }
  }
};

// One split of a unit: for every key block, over the query blocks that read it,
//   S^T = K Q^T, modified; dP^T = V dO^T; P = again(S); dS = pull(P, dP);
//   dV += P^T dO; dK += dS^T Q; dQ += dS K.
// Five products of one kind. dK and dV of the block stay in cache; only dQ is summed in memory.
template <class R, class W>
class KeySplit {
 public:
  KeySplit(const BackwardCall& call, const Unit& unit, std::byte* scratch, Prefetch* next)
      : call_(call),
        problem_(call.problem),
        unit_(unit),
        packed_(call, unit),
        t_(call.problem, {unit.plan().tile_q, unit.plan().tile_k}, scratch),
        next_(next) {}

  void run(std::int64_t split) {
    split_ = split;
    for (std::int64_t i = split; i < unit_.key_blocks(); i += call_.splits)
      run_block(static_cast<std::int32_t>(unit_.island.key_begin + i));
  }

 private:
  // What changes from head to head.
  struct Head {
    PackedHead<R> packed;
    ScoreModifier<R> modifier;
    WeightDropout dropout;
    BiasGradient<R> bias;
  };

  void run_block(std::int32_t key_block) {
    const Plan& plan = unit_.plan();
    key_block_ = key_block;
    at_.k0 = std::int64_t{key_block} * plan.tile_k;
    at_.kc = std::min<std::int64_t>(plan.tile_k, unit_.piece->nk - at_.k0);
    std::fill_n(t_.dk, at_.kc * packed_.ld_k, R{0});
    std::fill_n(t_.dv, at_.kc * packed_.ld_v, R{0});
    const HeadRange heads = heads_of(problem_, unit_.kv_head);
    for (std::int64_t h = heads.begin; h < heads.end; ++h) {
      const Head head{packed_.head(h),
                      {problem_, *unit_.piece, h, W::template kUnit<R>},
                      {problem_, *unit_.piece, h},
                      {call_, *unit_.piece, h}};
      for (const Plan::Entry& entry : plan.column(key_block))
        for (std::int32_t block = entry.block; block < entry.block + entry.count; ++block)
          visit(head, block, entry.mask);
    }
    store_rows<R>(t_.dk, packed_.ld_k, R{1}, key_rows(problem_, call_.io.dk, unit_, key_block, problem_.d_k), Keep::streamed);
    store_rows<R>(t_.dv, packed_.ld_v, R{1}, key_rows(problem_, call_.io.dv, unit_, key_block, problem_.d_v), Keep::streamed);
  }

  void visit(const Head& head, std::int32_t query_block, std::int32_t mask) {
    const TileAt queries = query_tile<R>(unit_, query_block);
    at_.q0 = queries.q0;
    at_.qc = queries.qc;
    at_.lanes = queries.lanes;
    at_.mask = mask;
    const std::int64_t block = query_block - unit_.island.query_begin;
    score(head, block);
    weigh(head, block);
    if (head.bias.data != nullptr) head.bias.take(at_, t_.ds, t_.turned);
    accumulate(head, block);
  }

  // S^T and dP^T
  void score(const Head& head, std::int64_t block) const {
    const std::int64_t local = at_.k0 - unit_.key_begin();
    const auto lanes = static_cast<std::size_t>(at_.lanes), keys = static_cast<std::size_t>(at_.kc);
    const auto d_k = static_cast<std::size_t>(problem_.d_k), d_v = static_cast<std::size_t>(problem_.d_v);
    const R* q = head.packed.q_across + block * problem_.d_k * packed_.lanes;
    const R* g = head.packed.do_across + block * problem_.d_v * packed_.lanes;
    const auto ld_k = static_cast<std::size_t>(packed_.ld_k);
    product<Order::rows>(
        Product<R>{packed_.k + local * packed_.ld_k, ld_k, q, lanes, t_.s, lanes, keys, lanes, d_k, next_},
        StartZero());
    product<Order::rows>(
        Product<R>{packed_.v + local * problem_.d_v, d_v, g, lanes, t_.ds, lanes, keys, lanes, d_v, next_},
        StartZero());
    if (head.modifier.touches(at_.mask)) head.modifier.apply(at_, t_.s, t_.spare);
  }

  void weigh(const Head& head, std::int64_t block) const {
    const R* statistic = head.packed.statistic + block * packed_.lanes;
    const R* delta = head.packed.delta + block * packed_.lanes;
    if (!head.dropout.active()) return weigh_tile<false>(statistic, delta, R{1});
    head.dropout.draw(at_, t_.spare);
    weigh_tile<true>(statistic, delta, static_cast<R>(DropoutRule::scale(problem_.dropout.p)));
  }

  template <bool kDropout>
  HWY_NOINLINE void weigh_tile(const R* HWY_RESTRICT statistic, const R* HWY_RESTRICT delta, R dropped) const {
    for_each_chunk<R>(at_, [&](std::int64_t j, std::int64_t c) {
      R* HWY_RESTRICT s = t_.s + j * at_.lanes + c;
      R* HWY_RESTRICT ds = t_.ds + j * at_.lanes + c;
      const R* HWY_RESTRICT keep = t_.spare + j * at_.lanes + c;
      for (std::int64_t l = 0; l < kChunk<R>; ++l) {
        const R score = s[l], factor = kDropout ? dropped * keep[l] : R{1};
        const R weight = W::again(score, statistic[c + l]);
        ds[l] = W::pull(score, weight, ds[l] * factor, delta[c + l]);
        s[l] = weight * factor;
      }
    });
  }

  // dV += P^T dO; dK += dS^T Q; dQ += dS K
  void accumulate(const Head& head, std::int64_t block) const {
    const std::int64_t rows = at_.q0 - unit_.query_begin(), keys = at_.k0 - unit_.key_begin();
    const auto lanes = static_cast<std::size_t>(at_.lanes), kc = static_cast<std::size_t>(at_.kc);
    const auto qc = static_cast<std::size_t>(at_.qc);
    const auto ld_k = static_cast<std::size_t>(packed_.ld_k), ld_v = static_cast<std::size_t>(packed_.ld_v);
    const R* q = head.packed.q + rows * packed_.ld_k;
    const R* g = head.packed.d_o + rows * packed_.ld_v;
    R* dq = head.packed.dq + (split_ * packed_.queries + rows) * packed_.ld_k;
    const bool hides = head.modifier.may_hide(at_.mask);
    add<Order::rows>({t_.s, lanes, g, ld_v, t_.dv, ld_v, kc, ld_v, qc, next_}, hides && !head.packed.finite_do[block]);
    add<Order::rows>({t_.ds, lanes, q, ld_k, t_.dk, ld_k, kc, ld_k, qc, next_}, hides && !head.packed.finite_q[block]);
    add<Order::columns>({t_.ds, lanes, packed_.k + keys * packed_.ld_k, ld_k, dq, ld_k, qc, ld_k, kc, next_},
                        hides && !packed_.finite_k[key_block_ - unit_.island.key_begin]);
  }

  template <Order kOrder>
  static void add(const Product<R>& p, bool hiding) {
    if (hiding) return product_hiding(p, kOrder, false);
    product<kOrder>(p, StartAdd());
  }

  const BackwardCall& call_;
  const Problem& problem_;
  const Unit& unit_;
  PackedUnit<R> packed_;
  BackwardScratch<R> t_;
  Prefetch* next_;
  std::int64_t split_ = 0;
  std::int32_t key_block_ = 0;
  TileAt at_{};
};

template <class R, class W>
void pull(const BackwardCall& call, const Unit& unit, std::int64_t split, std::byte* scratch, Prefetch* next) {
  KeySplit<R, W>(call, unit, scratch, next).run(split);
}

template <class R>
void finish(const BackwardCall& call, const Unit& unit, std::int64_t head, std::int32_t query_block) {
  const PackedUnit<R> packed(call, unit);
  const TileAt at = query_tile<R>(unit, query_block);
  R* HWY_RESTRICT sum = packed.head(head).dq + (at.q0 - unit.query_begin()) * packed.ld_k;
  for (std::int64_t split = 1; split < call.splits; ++split) {
    const R* HWY_RESTRICT more = sum + split * packed.queries * packed.ld_k;
    for (std::int64_t i = 0; i < at.qc * packed.ld_k; ++i) sum[i] += more[i];
  }
  store_rows<R>(sum, packed.ld_k, static_cast<R>(call.problem.scale),
                query_rows(call.problem, call.io.dq, *unit.piece, at, head, call.problem.d_k), Keep::streamed);
}

template <class R>
UnitBytes backward_unit_bytes(const BackwardCall& call, const Unit& unit) {
  return PackedUnit<R>(call, unit).bytes();
}

template <class R>
std::size_t backward_scratch_bytes(const Problem& problem, TileSize largest) {
  return BackwardScratch<R>(problem, largest, nullptr).bytes;
}

template <class R, class W>
constexpr BackwardKernel kBackward{
    backward_unit_bytes<R>, backward_scratch_bytes<R>, pack_keys<R>, pack_queries<R, W>, pull<R, W>, finish<R>};

const BackwardKernel* find_backward(bool is_double, Weight weight) {
  const bool rela = weight == Weight::rela;
  if (is_double) return rela ? &kBackward<double, Rela> : &kBackward<double, Softmax>;
  return rela ? &kBackward<float, Rela> : &kBackward<float, Softmax>;
}

}  // namespace HWY_NAMESPACE
}  // namespace tile
}  // namespace fovea
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "core/isa.h"

namespace fovea::tile {
HWY_EXPORT(find_backward);

const BackwardKernel& backward_kernel(const Problem& problem) {
  chosen_isa();  // FOVEA_ISA is read at the first question
  return *HWY_DYNAMIC_DISPATCH(find_backward)(problem.dtype == DType::f64, problem.weight);
}

}  // namespace fovea::tile
#endif  // HWY_ONCE
