#pragma once

#include "tile/cuda/simt.cuh"

// The search of the row rules: a block writes the scores of some query rows with all their keys into its scratch, then
// a warp takes a row and finds its terms. Weights and gradients are functions of a score and these terms, so that the
// kernels of the other weights serve the rules as well.
namespace fovea::tile::cuda {

// A row in scratch, worked on by one warp. Sums are in a fixed order.
template <class R>
struct WarpRow {
  const R* s;
  const R* g;  // null in forward
  const std::int32_t* keys;
  std::int32_t size;

  __device__ static int lane() { return static_cast<int>(threadIdx.x) % 32; }
  // f(score, gradient, position) for every key of this lane.
  template <class F>
  __device__ void each(F&& f) const {
    for (std::int32_t i = lane(); i < size; i += 32) f(s[i], g == nullptr ? R{0} : g[i], i);
  }
  template <class T>
  __device__ static T total(T x) {
    for (int step = 16; step > 0; step /= 2) x += __shfl_xor_sync(0xffffffffu, x, step);
    return x;
  }
  template <class T>
  __device__ static T least(T x) {
    for (int step = 16; step > 0; step /= 2) {
      const T other = __shfl_xor_sync(0xffffffffu, x, step);
      x = other < x ? other : x;
    }
    return x;
  }
  template <class F>
  __device__ R sum(F&& f) const {
    R x = 0;
    each([&](R score, R grad, std::int32_t i) { x += f(score, grad, i); });
    return total(x);
  }
  template <class F>
  __device__ std::int32_t count(F&& f) const {
    std::int32_t x = 0;
    each([&](R score, R, std::int32_t) { x += f(score) ? 1 : 0; });
    return total(x);
  }
  __device__ R largest() const {
    R top = Softmax::kFloor<R>;
    each([&](R score, R, std::int32_t) { top = math::larger(score, top); });
    return -least(-top);
  }
  // Of those that are not masked; infinity where all are.
  __device__ R smallest() const {
    R low = math::kInfinity<R>;
    each([&](R score, R, std::int32_t) { low = score < low && score > -math::kInfinity<R> ? score : low; });
    return least(low);
  }
  // The key of the n-th score that equals `value`, n >= 1; the largest number if there are fewer.
  __device__ std::int32_t key_of(R value, std::int32_t n) const {
    for (std::int32_t i0 = 0; i0 < size; i0 += 32) {
      const std::int32_t i = i0 + lane();
      unsigned equal = __ballot_sync(0xffffffffu, i < size && s[i] == value);
      const int found = __popc(equal);
      if (found >= n) {
        for (; n > 1; --n) equal &= equal - 1;
        return keys[i0 + __ffs(static_cast<int>(equal)) - 1];
      }
      n -= found;
    }
    return 0x7fffffff;
  }
};

template <class R>
struct RuleSearch {
  using Terms = RowTerms<R>;
  static constexpr int kMaxSteps = 300;  // far more than any search takes; a row of NaN must end too
  const RowRule& rule;
  const RuleWeights<R>& weights;
  WarpRow<R> row;
  std::int64_t position;  // of the query
  std::int64_t n_k;

  __device__ Terms find() const {
    Terms t = RuleWeights<R>::nothing();
    t.top = row.largest();
    switch (rule.kind) {
      case RowRuleKind::top_k: find_top(t); break;
      case RowRuleKind::sparsemax: t.bound = sparsemax_threshold(t.top); break;
      case RowRuleKind::entmax15: t.bound = entmax_threshold(t.top); break;
      case RowRuleKind::margin: find_payer(t); break;
      case RowRuleKind::self_adjust_normalized: find_ends(t); break;
    }
    if (row.g != nullptr) find_means(t);
    return t;
  }

 private:
  __device__ R exponential(R score, R top) const { return math::exp2_low((score - top) * math::kLog2e<R>); }
  __device__ R weight(R score, const Terms& t, std::int32_t i) const {
    return weights.weigh(score, t, {0, row.keys[i]});
  }

  // Makes the weights, which are exponentials so far, sum to one.
  __device__ void normalize(Terms& t) const {
    t.factor = 1;
    t.factor = Softmax::close(row.sum([&](R score, R, std::int32_t i) { return weight(score, t, i); }));
  }

  __device__ void find_top(Terms& t) const {
    const auto k = static_cast<std::int32_t>(min(rule.k, std::int64_t{row.size}));
    t.bound = top_bound(t.top, k);
    const std::int32_t left = k - row.count([&](R score) { return score > t.bound; });
    t.first = left < 1 ? -1 : row.key_of(t.bound, left);
    normalize(t);
  }
  // As tile/cpu's: at least k reach `low`, fewer than k reach `high`.
  __device__ R top_bound(R top, std::int32_t k) const {
    using Search = TopKSearch<R>;
    using Int = typename Search::Int;
    R bound = row.smallest();
    const auto count_from = [&](R value) { return row.count([&](R score) { return score >= value; }); };
    Int low = Search::image(bound), high = count_from(bound) <= k ? low + 1 : Search::image(top) + 1;
    for (int round = 0; high - 1 > low && round < kMaxSteps; ++round) {
      const Int middle = Search::middle(low, high, round % 4 == 3);
      const std::int32_t count = count_from(Search::value(middle));
      high = count < k ? middle : (count == k ? middle + 1 : high);
      low = count < k ? low : middle;
    }
    return Search::value(low);
  }

  __device__ R sparsemax_threshold(R top) const {
    R tau = -1, before = -1;
    for (int round = 0; round < kMaxSteps; ++round) {
      R count = 0, sum = 0;
      row.each([&](R score, R, std::int32_t) {
        const R over = score - top - tau;
        count += over > 0 ? R{1} : R{0};
        sum += math::larger(over, R{0});
      });
      count = row.total(count);
      const R next = tau + Sparsemax::step(row.total(sum), count);
      const bool found = count == before || next <= tau;
      before = count;
      tau = next;
      if (found) break;
    }
    return tau;
  }

  __device__ R entmax_threshold(R top) const {
    R tau = -1;
    int found = 0;  // how many last steps were taken, of two
    for (int round = 0; found < 2 && round < kMaxSteps; ++round) {
      Entmax15::Sums<R> sums{0, 0, 0, math::kInfinity<R>};
      row.each([&](R score, R, std::int32_t) {
        const R over = (score - top) / 2 - tau, r = math::larger(over, R{0});
        sums.count += over > 0 ? R{1} : R{0};
        sums.first += r;
        sums.second += r * r;
        sums.least = over > 0 && over < sums.least ? over : sums.least;
      });
      sums = {row.total(sums.count), row.total(sums.first), row.total(sums.second), row.least(sums.least)};
      const auto step = Entmax15::step<R>(sums);
      const R next = tau + step.length;
      found = next == tau ? 2 : (step.last ? found + 1 : found);
      tau = next;
    }
    return tau;
  }

  __device__ void find_payer(Terms& t) const {
    if (rule.training && rule.margin != 0) {
      const bool exists = position >= 0 && position < n_k;
      t.first = rule.target == MarginTarget::largest ? row.key_of(t.top, 1)
                                                     : (exists ? static_cast<std::int32_t>(position) : -1);
      const R fee = static_cast<R>(rule.margin);
      R top = Softmax::kFloor<R>;
      row.each(
          [&](R score, R, std::int32_t i) { top = math::larger(row.keys[i] == t.first ? score - fee : score, top); });
      t.top = -row.least(-top);
    }
    normalize(t);
  }

  __device__ void find_ends(Terms& t) const {
    const R bottom = row.smallest();
    const auto ends = SelfAdjustNormalized<R>::of(bottom, t.top);
    t.low = ends.low;
    t.bound = ends.inverse;
    t.factor = Softmax::close(row.sum([&](R score, R, std::int32_t) { return exponential(score, t.top); }));
    if (row.g == nullptr || rule.detach) return;
    t.first = row.key_of(t.top, 1);
    t.second = row.key_of(bottom, 1);
    const R plain = row.sum([&](R score, R grad, std::int32_t) {
      const R p = RuleWeights<R>::softmax(score, t);
      return p == 0 ? R{0} : p * grad;
    });
    const R mean = weighted(t);
    t.to_bottom = ends.vjp_smallest(bottom, mean, plain);
    t.to_top = ends.vjp_largest(t.top, mean);
  }

  __device__ R weighted(const Terms& t) const {
    return row.sum([&](R score, R grad, std::int32_t i) {
      const R w = weight(score, t, i);
      return w == 0 ? R{0} : w * grad;
    });
  }
  // What `vjp` subtracts: a mean of the gradients, weighted as the rule has it.
  __device__ void find_means(Terms& t) const {
    if (rule.kind != RowRuleKind::sparsemax && rule.kind != RowRuleKind::entmax15) {
      t.mean = weighted(t);
      return;
    }
    const bool square = rule.kind == RowRuleKind::entmax15;
    R total = 0, sum = 0;
    row.each([&](R score, R grad, std::int32_t i) {
      const R w = weight(score, t, i), part = square ? sqrt(w) : (w == 0 ? R{0} : R{1});
      total += part;
      sum += part == 0 ? R{0} : part * grad;
    });
    t.mean = row.total(sum) * Softmax::close(row.total(total));
  }
};

// Scratch of one block: scores and, in backward, gradients of kSimtRows rows; the keys they belong to.
struct SearchRoom {
  char* memory;
  std::int64_t block_bytes;
  std::int64_t longest;  // keys of the longest row
  bool backward;
};

// Scores of an own part into the block's scratch; returns how many keys its rows have.
template <class R>
__device__ std::int32_t write_rows(SimtTile<R, RuleWeights<R>, Role::row>& tile, const Sides<Role::row>& sides,
                                   const SearchRoom& to, const ListView& list, const Item& item, const OwnPart& own) {
  R* scores = reinterpret_cast<R*>(to.memory);
  R* gradients = scores + kSimtRows<R> * to.longest;
  auto* keys = reinterpret_cast<std::int32_t*>(gradients + (to.backward ? kSimtRows<R> * to.longest : 0));
  std::int32_t before = 0;
  walk(list, item, own, kSimtRows<R>, sides.piece.nk, [&](const TileAt& at) {
    tile.score(sides, at);
    if (to.backward) tile.score_gradients(sides, at);
    tile.each([&](int m, int n, int i, int j) {
      if (i >= at.own_count || j >= at.streamed_count) return;
      scores[i * to.longest + before + j] = tile.scores()[m][n];
      if (to.backward) gradients[i * to.longest + before + j] = tile.gradients()[m][n];
      if (i == 0) keys[before + j] = static_cast<std::int32_t>(at.streamed + j);
    });
    before += at.streamed_count;
  });
  return before;
}

// Blocks take (item, part, head) in turns; terms: [heads, rows].
template <class R>
__global__ void __launch_bounds__(kSimtThreads) rule_search_kernel(const __grid_constant__ Call call, SearchRoom room,
                                                                   int parts, std::int64_t count, RowTerms<R>* terms) {
  extern __shared__ char memory[];
  room.memory += room.block_bytes * blockIdx.x;
  const R* scores = reinterpret_cast<const R*>(room.memory);
  const R* gradients = scores + kSimtRows<R> * room.longest;
  const auto* keys =
      reinterpret_cast<const std::int32_t*>(gradients + (room.backward ? kSimtRows<R> * room.longest : 0));
  const RuleWeights<R> weights(call);
  for (std::int64_t index = blockIdx.x; index < count; index += gridDim.x) {
    const auto head = static_cast<std::int32_t>(index % call.heads),
               part = static_cast<std::int32_t>(index / call.heads % parts);
    const Item item = call.items[index / call.heads / parts];
    const PieceView& piece = call.pieces[item.piece];
    if (piece.kv_head >= 0 && piece.kv_head != call.kv_head_of(head)) continue;
    const OwnPart own(piece.rows[0], item.tile, 1, part, kSimtRows<R>, piece.nq);
    if (own.count == 0) continue;
    SimtTile<R, RuleWeights<R>, Role::row> tile(call, piece, SimtRoom<R>(memory, 0));
    const Sides<Role::row> sides{call, piece, head, call.kv_head_of(head)};
    const std::int32_t size = write_rows<R>(tile, sides, room, piece.rows[0], item, own);
    __syncthreads();
    for (int i = static_cast<int>(threadIdx.x) / 32; i < own.count; i += kSimtThreads / 32) {
      const WarpRow<R> row{scores + i * room.longest, room.backward ? gradients + i * room.longest : nullptr, keys,
                           size};
      const std::int64_t query = own.first + i;
      const RuleSearch<R> search{call.rule, weights, row, query + piece.nk - piece.nq, piece.nk};
      const RowTerms<R> found = search.find();
      if (WarpRow<R>::lane() == 0) terms[head * call.rows + piece.first_row + query] = found;
    }
    __syncthreads();
  }
}

}  // namespace fovea::tile::cuda
