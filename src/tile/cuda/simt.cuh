#pragma once

#include "tile/cuda/simt_launch.h"
#include "tile/cuda/simt_tile.cuh"

// The portable kernels: forward, the row kernel of backward (dq) and the column kernel (dk, dv), one template.
//   own a1, a2; streamed b1, b2:  S = a1 b1^T;  dP = a2 b2^T
//   forward  a1 = q         b1 = k, b2 = v       o = P v
//   row      a1 = q, a2 = do  b1 = k, b2 = v       dq = dS k
//   column   a1 = k, a2 = v   b1 = q, b2 = do      dk = dS^T q, dv = P^T do
namespace fovea::tile::cuda {

// One head of one piece, from the side of a role.
template <Role kRole>
struct Sides {
  static constexpr bool kByColumns = kRole == Role::column;
  const Call& call;
  const PieceView& piece;
  std::int32_t head, kv_head;

  __device__ RowsAt queries(const In& array, std::int64_t first, std::int32_t count) const {
    return {call.dtype, array.data, offset_of(array, piece.batch, piece.query_row(first), head),
            array.row * piece.q_step, count};
  }
  __device__ RowsAt keys(const In& array, std::int64_t first, std::int32_t count) const {
    return {call.dtype, array.data, offset_of(array, piece.batch, piece.key_row(first), kv_head),
            array.row * piece.k_step, count};
  }
  __device__ RowsAt gradients(std::int64_t first, std::int32_t count) const {
    RowsAt rows = queries(call.d_o, first, count);
    rows.dtype = call.gradient_type;
    return rows;
  }
  __device__ RowsAt own1(const TileAt& at) const {
    return kByColumns ? keys(call.k, at.own, at.own_count) : queries(call.q, at.own, at.own_count);
  }
  __device__ RowsAt own2(const TileAt& at) const {
    return kByColumns ? keys(call.v, at.own, at.own_count) : gradients(at.own, at.own_count);
  }
  __device__ RowsAt streamed1(const TileAt& at) const {
    return kByColumns ? queries(call.q, at.streamed, at.streamed_count) : keys(call.k, at.streamed, at.streamed_count);
  }
  __device__ RowsAt streamed2(const TileAt& at) const {
    return kByColumns ? gradients(at.streamed, at.streamed_count) : keys(call.v, at.streamed, at.streamed_count);
  }
  __device__ static Pair pair(const TileAt& at, int m, int n) {
    return kByColumns ? Pair{at.streamed + n, at.own + m} : Pair{at.own + m, at.streamed + n};
  }
  // Terms of the row of a pair.
  template <class W>
  __device__ typename W::Terms terms(const TileAt& at, int m, int n) const {
    using Terms = typename W::Terms;
    const Pair p = pair(at, m, n);
    const bool inside = m < at.own_count && n < at.streamed_count;
    if (!inside || call.statistics == nullptr) return W::nothing();
    return static_cast<const Terms*>(call.statistics)[head * call.rows + piece.first_row + p.query];
  }
};

template <class R, class W, Role kRole>
class SimtTile {
 public:
  static constexpr int M = kMicro<R>, P = SimtRoom<R>::kPairs;

  __device__ SimtTile(const Call& call, const PieceView& piece, const SimtRoom<R>& room)
      : call_(call), piece_(piece), room_(room), policy_(call) {
    for (int m = 0; m < M; ++m) top_[m] = Softmax::kFloor<R>, sum_[m] = 0, one_[m] = 1;
  }

  __device__ void visit(const TileAt& at, std::int32_t head) {
    const Sides<kRole> sides{call_, piece_, head, call_.kv_head_of(head)};
    const bool hides = at.mask != nullptr || call_.bias.data != nullptr;
    const RowsAt streamed1 = sides.streamed1(at), streamed2 = sides.streamed2(at);
    score(sides, at);
    if constexpr (kRole == Role::forward) {
      weigh(sides, at);
      accumulate<R>(room_, {room_.p, streamed2, call_.d_v, room_.acc1, hides}, factor_);
    } else {
      vjp(sides, at);
      accumulate<R>(room_, {room_.g, streamed1, call_.d_k, room_.acc1, hides}, one_);
      if constexpr (kRole == Role::column)
        accumulate<R>(room_, {room_.p, streamed2, call_.d_v, room_.acc2, hides}, one_);
    }
  }

  // Rows [first, first + count) of the results.
  __device__ void store(std::int64_t first, std::int32_t count, std::int32_t head) const {
    __syncthreads();
    if constexpr (kRole == Role::forward) {
      store_output(first, count, head);
    } else {
      const R scale = static_cast<R>(call_.scale);
      const bool by_columns = kRole == Role::column;
      store_rows(by_columns ? call_.dk : call_.dq, room_.acc1, call_.d_k, {first, count, head}, scale);
      if constexpr (kRole == Role::column) store_rows(call_.dv, room_.acc2, call_.d_v, {first, count, head}, R{1});
    }
  }

  // Scores of a tile, -infinity where a pair is not kept; as the rules' search wants them.
  __device__ void score(const Sides<kRole>& sides, const TileAt& at) {
    const Modifier<R> modify(call_, piece_, sides.head);
    const RowsAt rows[2] = {sides.own1(at), sides.streamed1(at)};
    multiply_rows<R>(room_, rows, call_.d_k, s_);
    each([&](int m, int n, int i, int j) {
      s_[m][n] = at.keeps(i, j) ? modify(s_[m][n], sides.pair(at, i, j)) : -math::kInfinity<R>;
    });
  }
  // Gradients of the weights of a tile.
  __device__ void score_gradients(const Sides<kRole>& sides, const TileAt& at) {
    const RowsAt rows[2] = {sides.own2(at), sides.streamed2(at)};
    multiply_rows<R>(room_, rows, call_.d_v, g_);
    if (!call_.has_dropout) return;
    const Dropper<R> drop(call_, piece_, sides.head);
    each([&](int m, int n, int i, int j) {
      if (s_[m][n] != -math::kInfinity<R>) g_[m][n] *= drop(sides.pair(at, i, j));
    });
  }
  __device__ const Micro<R>& scores() const { return s_; }
  __device__ const Micro<R>& gradients() const { return g_; }
  // Scores and gradients become gradients of the scores, and weights.
  __device__ void weigh_back(const Sides<kRole>& sides, const TileAt& at) {
    const Dropper<R> drop(call_, piece_, sides.head);
    each([&](int m, int n, int i, int j) {
      const Pair pair = sides.pair(at, i, j);
      const bool kept = s_[m][n] != -math::kInfinity<R>;
      const Weighed<R> w = policy_.vjp(s_[m][n], g_[m][n], sides.template terms<W>(at, i, j), pair);
      g_[m][n] = kept ? w.gradient : R{0};
      s_[m][n] = !kept ? R{0} : (call_.has_dropout ? w.weight * drop(pair) : w.weight);
    });
  }

  // f(m, n, own row, streamed row)
  template <class F>
  __device__ static void each(F&& f) {
#pragma unroll
    for (int m = 0; m < M; ++m)
#pragma unroll
      for (int n = 0; n < M; ++n) f(m, n, lane_y() + 16 * m, lane_x() + 16 * n);
  }

 private:
  // Forward: weights into room.p, factor_ what the sums so far are worth.
  __device__ void weigh(const Sides<kRole>& sides, const TileAt& at) {
    for (int m = 0; m < M; ++m) factor_[m] = 1;
    if constexpr (W::kHasTop) raise_top();
    const Dropper<R> drop(call_, piece_, sides.head);
    each([&](int m, int n, int i, int j) {
      const Pair pair = sides.pair(at, i, j);
      R w;
      if constexpr (W::kHasTop) {
        const R share = Softmax::weigh(s_[m][n], top_[m]);
        sum_[m] += share;
        w = policy_.weight(s_[m][n], share);
      } else {
        w = s_[m][n] == -math::kInfinity<R> ? R{0} : policy_.weigh(s_[m][n], sides.template terms<W>(at, i, j), pair);
      }
      if (call_.has_dropout && w != 0) w *= drop(pair);
      room_.p[i * P + j] = w;
    });
  }
  __device__ void raise_top() {
    for (int m = 0; m < M; ++m) {
      R top = top_[m];
#pragma unroll
      for (int n = 0; n < M; ++n) top = math::larger(s_[m][n], top);
      top = row_max(top);
      factor_[m] = Softmax::fold(top_[m], top);
      sum_[m] *= factor_[m];
      top_[m] = top;
    }
  }

  __device__ void vjp(const Sides<kRole>& sides, const TileAt& at) {
    score_gradients(sides, at);
    weigh_back(sides, at);
    each([&](int m, int n, int i, int j) {
      room_.p[i * P + j] = s_[m][n];
      room_.g[i * P + j] = g_[m][n];
    });
  }

  struct Target {
    std::int64_t first;
    std::int32_t count, head;
  };
  __device__ std::int64_t offset(const Out& array, const Target& to, int i) const {
    const std::int64_t row = kRole == Role::column ? piece_.key_row(to.first + i) : piece_.query_row(to.first + i);
    return offset_of(array, piece_.batch, row, to.head);
  }
  __device__ void store_rows(const Out& array, const R* acc, int width, const Target& to, R scale) const {
    for (int e = static_cast<int>(threadIdx.x); e < to.count * width; e += kSimtThreads)
      store_as<R>(array.data, call_.dtype, offset(array, to, e / width) + e % width, acc[e] * scale);
  }
  __device__ void store_output(std::int64_t first, std::int32_t count, std::int32_t head) const {
    for (int m = 0; m < M; ++m) {
      const int i = lane_y() + 16 * m;
      const R sum = row_sum(sum_[m]), factor = W::kHasTop ? Softmax::close(sum) : R{1};
      if (i >= count) continue;
      const Target to{first, count, head};
      for (int c = lane_x(); c < call_.d_v; c += 16) {
        const R value = room_.acc1[i * call_.d_v + c] * factor;
        store_output_as<R>(call_, offset(call_.out, to, i) + c, offset(call_.out_rest, to, i) + c, value);
      }
      if (W::kHasTop && call_.out_lse.data != nullptr && lane_x() == 0)
        static_cast<R*>(call_.out_lse.data)[offset(call_.out_lse, {first, count, head}, i)] =
            Softmax::statistic(top_[m], sum);
    }
  }

  const Call& call_;
  const PieceView& piece_;
  SimtRoom<R> room_;
  W policy_;
  Micro<R> s_, g_;
  R top_[M], sum_[M], factor_[M], one_[M];
};

// One own tile's part of a head (by columns: of a key head).
template <class R, class W, Role kRole>
__device__ void run_part(const Call& call, const Item& item, std::int32_t y, int group, int part) {
  extern __shared__ char memory[];
  const PieceView& piece = call.pieces[item.piece];
  constexpr bool kByColumns = kRole == Role::column;
  const std::int32_t kv_head = kByColumns ? y : call.kv_head_of(y);
  if (piece.kv_head >= 0 && piece.kv_head != kv_head) return;
  const ListView& list = kByColumns ? piece.columns[group - 1] : piece.rows[group - 1];
  const OwnPart own(list, item.tile, group, part, kSimtRows<R>, kByColumns ? piece.nk : piece.nq);
  if (own.count == 0) return;

  const int d1 = kRole == Role::forward ? call.d_v : call.d_k, d2 = kByColumns ? call.d_v : 0;
  const SimtRoom<R> room(memory, d1);
  __syncthreads();
  for (int e = static_cast<int>(threadIdx.x); e < kSimtRows<R> * (d1 + d2); e += kSimtThreads) room.acc1[e] = 0;
  SimtTile<R, W, kRole> tile(call, piece, room);
  const std::int32_t first = kByColumns ? call.first_head_of(y) : y;
  const std::int32_t last = kByColumns ? call.first_head_of(y + 1) : y + 1;
  for (std::int32_t head = first; head < last; ++head)
    walk(list, item, own, kSimtRows<R>, kByColumns ? piece.nq : piece.nk,
         [&](const TileAt& at) { tile.visit(at, head); });
  tile.store(own.first, own.count, y);
}

// Did a tensor-core kernel leave this item, or a part of it, to us?
__device__ inline bool is_flagged(const Call& call, const Item& item, std::int64_t heads, std::int64_t y) {
  bool any = false;
  for (std::int32_t i = 0; i < item.flags; ++i) any |= call.flags[(item.flag + i) * heads + y] != 0;
  return any;
}

// How the work is numbered: parts of own tiles, then items, then heads or key heads.
struct SimtWork {
  int group, parts;
  std::int64_t items, heads;
  __host__ __device__ std::int64_t count() const { return parts * items * heads; }
};

// A block for each, or a few blocks that look after those which are flagged.
template <class R, class W, Role kRole>
__global__ void __launch_bounds__(kSimtThreads) simt_kernel(const __grid_constant__ Call call, SimtWork work) {
  for (std::int64_t index = blockIdx.x; index < work.count(); index += gridDim.x) {
    const Item& item = call.items[index / work.parts % work.items];
    const std::int64_t y = index / work.parts / work.items;
    if (call.flags != nullptr && !is_flagged(call, item, work.heads, y)) continue;
    run_part<R, W, kRole>(call, item, static_cast<std::int32_t>(y), work.group, static_cast<int>(index % work.parts));
  }
}

}  // namespace fovea::tile::cuda
