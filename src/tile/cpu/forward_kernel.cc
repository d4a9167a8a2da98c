#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tile/cpu/forward_kernel.cc"
#include "hwy/foreach_target.h"
// After foreach_target.h, which compiles this file once per target.
#include "hwy/highway.h"
#include "tile/cpu/kernel.h"
#include "tile/cpu/operands-inl.h"
#include "tile/cpu/row_statistics-inl.h"
#include "tile/cpu/rows-inl.h"
#include "tile/cpu/score-inl.h"
#include "tile/cpu/weights-inl.h"

HWY_BEFORE_NAMESPACE();
namespace fovea {
namespace tile {
namespace HWY_NAMESPACE {

// Packed keys and values of a unit: both are broadcast operands, so no padding is needed, and rows beyond the sequence
// do not exist.
template <class M>
struct PackedKeys {
  using Element = typename M::Element;
  struct Block {
    Element* k;            // [tile_k, elements(d_k)]
    Element* v;            // [elements(tile_k), d_v]
    std::uint8_t* finite;  // no infinity or NaN in v
  };
  UnitBytes bytes;

  PackedKeys(const Problem& problem, const Unit& unit)
      : k_size_(unit.plan().tile_k * elements<M>(problem.d_k)),
        v_size_(elements<M>(unit.plan().tile_k) * problem.d_v),
        first_(unit.island.key_begin) {
    Carver keys(unit.room.keys), notes(unit.room.notes);
    k_ = keys.take<Element>(unit.key_blocks() * k_size_);
    v_ = keys.take<Element>(unit.key_blocks() * v_size_);
    finite_ = notes.take<std::uint8_t>(unit.key_blocks());
    bytes = {.keys = keys.used(), .notes = notes.used()};
  }

  Block block(std::int32_t key_block) const {
    const std::int64_t i = key_block - first_;
    return {k_ + i * k_size_, v_ + i * v_size_, finite_ + i};
  }

 private:
  std::int64_t k_size_, v_size_;
  std::int32_t first_;
  Element *k_, *v_;
  std::uint8_t* finite_;
};

// One thread's tiles. S: what is collected of rows besides their output, NoStatistics or RowSums.
template <class M, class S>
struct ForwardScratch {
  using R = typename M::Real;
  using Element = typename M::Element;
  Element* q;       // [elements(d_k), lanes], transposed
  Element* q_rows;  // [tile_q, elements(d_k)], on the way in
  R* s;             // [tile_k, lanes], scores, then weights
  Element* p;       // [elements(tile_k), lanes], the weights as an operand
  R* o;             // [d_v, lanes], the output so far
  R* rows;          // [tile_q, d_v], on the way out
  R* spare;         // [tile_k, lanes], a bias tile or a dropout mask
  R* top;           // [lanes]
  R* sum;           // [lanes]
  R* factor;        // [lanes]
  S statistics;
  std::size_t bytes;

  ForwardScratch(const ForwardCall& call, TileSize tile, Room room) : ForwardScratch(call, tile, Carver(room)) {}

 private:
  ForwardScratch(const ForwardCall& call, TileSize tile, Carver carver) : statistics(call, tile, carver) {
    const Problem& problem = call.problem;
    const std::int64_t lanes = padded_width<R>(tile.query);
    q = carver.take<Element>(elements<M>(problem.d_k) * lanes);
    s = carver.take<R>(tile.key * lanes);
    if constexpr (M::kPaired)
      p = carver.take<Element>(elements<M>(tile.key) * lanes);
    else
      p = s;
    o = carver.take<R>(problem.d_v * lanes);
    q_rows = carver.take<Element>(tile.query * elements<M>(problem.d_k));
    rows = carver.take<R>(tile.query * problem.d_v);
    const bool extra = problem.bias.data != nullptr || problem.dropout.p > 0;
    spare = carver.take<R>(extra ? tile.key * lanes : 0);
    top = carver.take<R>(lanes);
    sum = carver.take<R>(lanes);
    factor = carver.take<R>(lanes);
    bytes = carver.used();
  }
};

// s is [keys x lanes].
template <class R>
HWY_NOINLINE void raise_top(const R* HWY_RESTRICT s, R* HWY_RESTRICT top, std::int64_t keys, std::int64_t lanes) {
  for (std::int64_t j = 0; j < keys; ++j, s += lanes)
    for (std::int64_t c = 0; c < lanes; c += kChunk<R>)
      for (std::int64_t l = c; l < c + kChunk<R>; ++l) top[l] = math::larger(s[l], top[l]);
}

// `factor` holds the maximum before this tile; it becomes the factor of what was collected under it.
template <class R>
HWY_NOINLINE void fold(R* HWY_RESTRICT factor, const R* HWY_RESTRICT top, R* HWY_RESTRICT sum, std::int64_t lanes) {
  for (std::int64_t c = 0; c < lanes; c += kChunk<R>)
    for (std::int64_t l = c; l < c + kChunk<R>; ++l) {
      factor[l] = Softmax::fold(factor[l], top[l]);
      sum[l] *= factor[l];
    }
}

// One query block of one head: for every key block of its row in the plan,
//   S^T = K Q^T, modified; fold the row maxima; P = weigh(S); O^T = O^T factor + V^T P^T.
// Lanes are queries throughout, so maxima and sums are vertical, and the rescaling of O is part of loading it.
template <class M, template <class R> class Statistics>
class QueryTile {
 public:
  using R = typename M::Real;
  using S = Statistics<R>;
  using Element = typename M::Element;

  QueryTile(const ForwardCall& call, const Unit& unit, HeadBlock queries, Room scratch)
      : problem_(call.problem),
        io_(call.io),
        unit_(unit),
        piece_(*unit.piece),
        queries_(queries),
        rows_{call.problem, *unit.piece, queries.head},
        keys_(call.problem, unit),
        t_(call, unit.plan().tile(), scratch),
        weights_(passes_of<R>(call.problem.weight)),
        modifier_(call.problem, *unit.piece, queries.head, weights_.unit),
        dropout_(call.problem, *unit.piece, queries.head),
        at_(query_tile<R>(unit, queries.block)),
        stores_(call.stores),
        statistics_(call.statistics) {}

  void run(const AttendRoom& room) {
    next_ = room.next;
    if (room.part.is_first) open();
    for (const Plan::Entry& entry : unit_.plan().row(queries_.block)) {
      const std::int32_t end = std::min(entry.block + entry.count, unit_.island.key_end);
      for (std::int32_t block = std::max(entry.block, unit_.island.key_begin); block < end; ++block)
        visit(block, entry.mask);
    }
    if (room.part.is_last) close();
  }

 private:
  R unit_scale() const { return static_cast<R>(problem_.scale) * weights_.unit; }

  void open() {
    const std::int64_t width = elements<M>(problem_.d_k);
    M::load(rows_(io_.q, at_, problem_.d_k), M::operand_scale(unit_scale()), t_.q_rows, width);
    turn_across<Element>({t_.q_rows, width}, at_, width, t_.q);
    std::fill_n(t_.top, at_.lanes, Softmax::kFloor<R>);
    std::fill_n(t_.sum, at_.lanes, R{0});
    std::fill_n(t_.o, problem_.d_v * at_.lanes, R{0});
    if constexpr (S::kActive) meter().open(at_);
  }

  void visit(std::int32_t key_block, std::int32_t mask) {
    at_.enter(unit_, key_block, mask);
    const auto keys = keys_.block(key_block);
    if (weights_.has_top) std::copy_n(t_.top, at_.lanes, t_.factor);
    score(keys.k);
    if constexpr (S::kActive) {
      meter().fold(at_, t_.factor, t_.top, t_.sum);
      meter().keep_top(at_, t_.s);
      meter().weigh(at_, t_.s, t_.top, t_.sum);
    } else {
      if (weights_.has_top) fold(t_.factor, t_.top, t_.sum, at_.lanes);
      weights_.weigh(problem_, at_, t_.s, t_.top, t_.sum);
    }
    if (dropout_.active()) dropout_.apply(at_, t_.s, t_.spare);
    round_woven<M>({t_.s, at_.lanes}, {t_.p, at_.lanes}, at_.kc, at_.lanes);
    gather(keys.v, *keys.finite != 0 || !modifier_.may_hide(mask));
  }

  // S^T = K Q^T; t_.top becomes the maximum so far.
  void score(const Element* k) {
    const auto d = static_cast<std::size_t>(elements<M>(problem_.d_k)), lanes = static_cast<std::size_t>(at_.lanes);
    const Product<R, Element> p{k, d, t_.q, lanes, t_.s, lanes, static_cast<std::size_t>(at_.kc), lanes, d, next_};
    const bool modified = modifier_.touches(at_.mask);
    M::score(p, M::product_scale(unit_scale()), weights_.has_top && !modified ? t_.top : nullptr);
    if (!modified) return;
    modifier_.apply(at_, t_.s, t_.spare);
    if (weights_.has_top) raise_top(t_.s, t_.top, at_.kc, at_.lanes);
  }

  // O^T = O^T factor + V^T P^T
  void gather(const Element* v, bool safe) {
    const auto d = static_cast<std::size_t>(problem_.d_v), lanes = static_cast<std::size_t>(at_.lanes);
    const auto keys = static_cast<std::size_t>(elements<M>(at_.kc));
    const Product<R, Element> p{v, d, t_.p, lanes, t_.o, lanes, d, lanes, keys, next_};
    if (safe) {
      if (weights_.has_top)
        M::add_onto(p, t_.factor);
      else
        M::template add<Order::columns>(p);
      return;
    }
    if (weights_.has_top)
      for (std::int64_t i = 0; i < problem_.d_v * at_.lanes; ++i) t_.o[i] *= t_.factor[i % at_.lanes];
    product_hiding<M>(p, Order::columns, true);
  }

  void close() {
    const R dropped = dropout_.active() ? static_cast<R>(PairDropout::scale(problem_.dropout.p)) : R{1};
    for (std::int64_t l = 0; l < at_.lanes; ++l)
      t_.factor[l] = weights_.has_top ? Softmax::close(t_.sum[l]) * dropped : dropped;
    for (std::int64_t c = 0; c < problem_.d_v; ++c) {
      R* HWY_RESTRICT o = t_.o + c * at_.lanes;
      const R* HWY_RESTRICT factor = t_.factor;
      for (std::int64_t l = 0; l < at_.lanes; ++l) o[l] *= factor[l];
    }
    transpose_tile<R>({t_.o, at_.lanes}, {t_.rows, problem_.d_v}, problem_.d_v, at_.qc);
    store_rows<R>(t_.rows, problem_.d_v, R{1}, rows_.outputs(io_.o, at_), stores_);
    if (io_.rest.data != nullptr) {
      leave_rest<R>(problem_.output_type(), t_.rows, at_.qc * problem_.d_v);
      store_rows<R>(t_.rows, problem_.d_v, R{1}, rows_.outputs(io_.rest, at_), stores_);
    }
    if (weights_.has_top && io_.lse.data != nullptr)
      for (std::int64_t l = 0; l < at_.qc; ++l) {
        void* lse = element(io_.lse, dtype_of<R>, piece_.batch, piece_.query_row(at_.q0 + l), queries_.head);
        *static_cast<R*>(lse) = Softmax::statistic(t_.top[l], t_.sum[l]);
      }
    if constexpr (S::kActive) meter().close(at_, t_.sum);
  }

  RowMeter<R> meter() const { return {*statistics_, piece_, queries_.head, t_.statistics}; }

  const Problem& problem_;
  const Forward& io_;
  const Unit& unit_;
  const Piece& piece_;
  HeadBlock queries_;
  QueryRows rows_;
  PackedKeys<M> keys_;
  ForwardScratch<M, S> t_;
  WeightPasses<R> weights_;
  ScoreModifier<R> modifier_;
  WeightDropout dropout_;
  TileAt at_;
  Prefetch* next_ = nullptr;
  StoreMode stores_;
  const RowStatistics* statistics_;
};

template <class M>
UnitBytes unit_bytes(const Problem& problem, const Unit& unit) {
  return PackedKeys<M>(problem, without_room(unit)).bytes;
}

template <class M, template <class R> class Statistics>
std::size_t scratch_bytes(const ForwardCall& call, TileSize tile) {
  return ForwardScratch<M, Statistics<typename M::Real>>(call, tile, Room{}).bytes;
}

template <class M>
void pack(const ForwardCall& call, const Unit& unit, std::int32_t key_block) {
  const Problem& problem = call.problem;
  const auto to = PackedKeys<M>(problem, unit).block(key_block);
  const auto k = key_rows(problem, call.io.k, unit, key_block, problem.d_k);
  const auto v = key_rows(problem, call.io.v, unit, key_block, problem.d_v);
  M::load(k, 1, to.k, elements<M>(problem.d_k));
  *to.finite = M::load_woven(v, to.v, problem.d_v);
}

template <class M, template <class R> class Statistics>
void attend(const ForwardCall& call, const Unit& unit, HeadBlock queries, const AttendRoom& room) {
  QueryTile<M, Statistics>(call, unit, queries, room.scratch).run(room);
}

template <class M>
struct ForwardTable {
  static constexpr ForwardKernel kKernel{unit_bytes<M>, scratch_bytes<M, NoStatistics>, pack<M>,
                                         attend<M, NoStatistics>};
};
template <class M>
struct MeasuredTable {
  static constexpr ForwardKernel kKernel{unit_bytes<M>, scratch_bytes<M, RowSums>, pack<M>, attend<M, RowSums>};
};

const ForwardKernel* find_forward(Numbers numbers, bool measured) {
  return measured ? choose<MeasuredTable>(numbers) : choose<ForwardTable>(numbers);
}

}  // namespace HWY_NAMESPACE
}  // namespace tile
}  // namespace fovea
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace fovea::tile {
HWY_EXPORT(find_forward);

const ForwardKernel& forward_kernel(const ForwardCall& call) {
  const Numbers numbers = numbers_of(call.problem);
  return *HWY_DYNAMIC_DISPATCH(find_forward)(numbers, call.statistics != nullptr);
}

}  // namespace fovea::tile
#endif  // HWY_ONCE
