// The row rules on columns of whole rows.

#if defined(FOVEA_TILE_CPU_RULE_COLUMNS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef FOVEA_TILE_CPU_RULE_COLUMNS_INL_H_
#undef FOVEA_TILE_CPU_RULE_COLUMNS_INL_H_
#else
#define FOVEA_TILE_CPU_RULE_COLUMNS_INL_H_
#endif

#include <algorithm>
#include <cstdint>

#include "hwy/highway.h"
#include "policy/row_rule.h"
#include "policy/softmax.h"
#include "tile/cpu/columns-inl.h"
#include "tile/row_rule.h"

HWY_BEFORE_NAMESPACE();
namespace fovea {
namespace tile {
namespace HWY_NAMESPACE {

// Rules: weigh() turns scores into weights; vjp() does so too, and gradients of the weights into those of the scores.

template <class R>
class TopKColumns {
  using Search = TopKSearch<R>;
  using Int = typename Search::Int;
  using Counts = PerLane<Int>;

 public:
  TopKColumns(const RowRule& rule, const RowTile<R>& tile, std::int64_t first)
      : columns_(tile, first), k_(static_cast<Int>(std::min(rule.k, tile.keys))) {}

  void weigh() const {
    const PerLane<R> top = columns_.largest();
    keep(threshold(top));
    softmax(columns_, top);
  }
  void vjp() const {
    weigh();
    vjp_softmax(columns_);
  }

 private:
  HWY_NOINLINE Counts count_from(const PerLane<R>& bound) const {
    Counts count(0);
    columns_.each([&](R s, std::int64_t l) { count[l] += s >= bound[l] ? 1 : 0; });
    return count;
  }
  HWY_NOINLINE Counts count_above(const PerLane<R>& bound) const {
    Counts count(0);
    columns_.each([&](R s, std::int64_t l) { count[l] += s > bound[l] ? 1 : 0; });
    return count;
  }

  // A value that k scores reach, or more if they are equal to it; the smallest where there are not that many. At least
  // k reach `low`, fewer than k reach `high`; done as soon as exactly k reach something.
  PerLane<R> threshold(const PerLane<R>& top) const {
    PerLane<R> bound = columns_.smallest();
    Counts low(0), high(0);
    const Counts all = count_from(bound);
    for_each_lane<R>([&](std::int64_t l) {
      low[l] = Search::image(bound[l]);
      high[l] = all[l] <= k_ ? low[l] + 1 : Search::image(top[l]) + 1;
    });
    for (unsigned round = 0; aim(low, high, round % 4 == 3, bound); ++round) {
      const Counts count = count_from(bound);
      for_each_lane<R>([&](std::int64_t l) {
        const Int middle = Search::image(bound[l]);
        high[l] = count[l] < k_ ? middle : (count[l] == k_ ? middle + 1 : high[l]);
        low[l] = count[l] < k_ ? low[l] : middle;
      });
    }
    return bound;
  }
  // The next bound to try in every lane; false when all are found. A lane that is found tries its result again.
  static bool aim(const Counts& low, const Counts& high, bool of_images, PerLane<R>& bound) {
    Int open = 0;
    for_each_lane<R>([&](std::int64_t l) {
      const bool found = high[l] - 1 <= low[l];
      bound[l] = Search::value(found ? low[l] : Search::middle(low[l], high[l], of_images));
      open |= found ? 0 : 1;
    });
    return open != 0;
  }

  // Masks what is below its bound, and what equals it once there are k.
  HWY_NOINLINE void keep(const PerLane<R>& bound) const {
    Counts left = count_above(bound);
    for_each_lane<R>([&](std::int64_t l) { left[l] = k_ - left[l]; });
    columns_.each([&](R& s, std::int64_t l) {
      const bool equal = s == bound[l], below = s < bound[l];
      s = below || (equal && left[l] <= 0) ? -math::kInfinity<R> : s;
      left[l] -= equal ? 1 : 0;
    });
  }

  Columns<R> columns_;
  Int k_;
};

template <class R>
class SparsemaxColumns {
 public:
  SparsemaxColumns(const RowRule&, const RowTile<R>& tile, std::int64_t first) : columns_(tile, first) {}

  void weigh() const {
    const PerLane<R> top = columns_.largest();
    const PerLane<R> tau = threshold(top);
    columns_.each([&](R& s, std::int64_t l) { s = Sparsemax::weigh(s - top[l], tau[l]); });
  }
  void vjp() const {
    weigh();
    PerLane<R> count(0), sum(0);
    columns_.each_pair([&](R p, R g, std::int64_t l) {
      count[l] += p == 0 ? R{0} : R{1};
      sum[l] += p == 0 ? R{0} : g;
    });
    for_each_lane<R>([&](std::int64_t l) { sum[l] *= Softmax::close(count[l]); });
    columns_.each_pair([&](R p, R& g, std::int64_t l) { g = Sparsemax::vjp(p, g, sum[l]); });
  }

 private:
  // Steps until no lane's support changes: the last step then is exact. A lane that is done waits for the others, so
  // that it does not depend on them.
  HWY_NOINLINE PerLane<R> threshold(const PerLane<R>& top) const {
    PerLane<R> tau(-1), before(-1), found(0);
    bool open = true;
    while (open) {
      PerLane<R> count(0), sum(0);
      columns_.each([&](R s, std::int64_t l) {
        const R over = s - top[l] - tau[l];
        count[l] += over > 0 ? R{1} : R{0};
        sum[l] += math::larger(over, R{0});
      });
      int moving = 0;
      for_each_lane<R>([&](std::int64_t l) {
        const R next = found[l] != 0 ? tau[l] : tau[l] + Sparsemax::step(sum[l], count[l]);
        found[l] = count[l] == before[l] || next <= tau[l] ? R{1} : found[l];
        moving |= found[l] == 0 ? 1 : 0;
        before[l] = count[l];
        tau[l] = next;
      });
      open = moving != 0;
    }
    return tau;
  }

  Columns<R> columns_;
};

template <class R>
class Entmax15Columns {
 public:
  Entmax15Columns(const RowRule&, const RowTile<R>& tile, std::int64_t first) : columns_(tile, first) {}

  void weigh() const {
    const PerLane<R> top = columns_.largest();
    const PerLane<R> tau = threshold(top);
    columns_.each([&](R& s, std::int64_t l) { s = Entmax15::weigh((s - top[l]) / 2, tau[l]); });
  }
  void vjp() const {
    weigh();
    PerLane<R> roots(0), sum(0);
    columns_.each_pair([&](R p, R g, std::int64_t l) {
      const R root = std::sqrt(p);
      roots[l] += root;
      sum[l] += p == 0 ? R{0} : root * g;
    });
    for_each_lane<R>([&](std::int64_t l) { sum[l] *= Softmax::close(roots[l]); });
    columns_.each_pair([&](R p, R& g, std::int64_t l) { g = Entmax15::vjp(std::sqrt(p), g, sum[l]); });
  }

 private:
  HWY_NOINLINE PerLane<R> threshold(const PerLane<R>& top) const {
    PerLane<R> tau(-1), found(0);  // found: how many last steps were taken, of two
    bool open = true;
    while (open) {
      PerLane<R> count(0), first(0), second(0), least(math::kInfinity<R>);
      columns_.each([&](R s, std::int64_t l) {
        const R over = (s - top[l]) / 2 - tau[l], r = math::larger(over, R{0});
        count[l] += over > 0 ? R{1} : R{0};
        first[l] += r;
        second[l] += r * r;
        least[l] = over > 0 && over < least[l] ? over : least[l];
      });
      int moving = 0;
      for_each_lane<R>([&](std::int64_t l) {
        const auto step = Entmax15::step<R>({count[l], first[l], second[l], least[l]});
        const R next = found[l] > 1 ? tau[l] : tau[l] + step.length;
        found[l] = found[l] > 1 || next == tau[l] ? R{2} : (step.last ? found[l] + 1 : found[l]);
        moving |= found[l] > 1 ? 0 : 1;
        tau[l] = next;
      });
      open = moving != 0;
    }
    return tau;
  }

  Columns<R> columns_;
};

template <class R>
class MarginColumns {
 public:
  MarginColumns(const RowRule& rule, const RowTile<R>& tile, std::int64_t first)
      : columns_(tile, first), rule_(rule), diagonal_(tile.diagonal + first) {}

  void weigh() const {
    if (rule_.training && rule_.margin != 0)
      rule_.target == MarginTarget::largest ? charge_largest() : charge_diagonal();
    softmax(columns_, columns_.largest());
  }
  void vjp() const {
    weigh();
    vjp_softmax(columns_);
  }

 private:
  HWY_NOINLINE void charge_largest() const {
    const PerLane<R> top = columns_.largest();
    PerLane<R> fee(static_cast<R>(rule_.margin));
    columns_.each([&](R& s, std::int64_t l) {
      const bool pays = s == top[l];
      s -= pays ? fee[l] : R{0};
      fee[l] = pays ? R{0} : fee[l];
    });
  }
  void charge_diagonal() const {
    for_each_lane<R>([&](std::int64_t l) {
      if (diagonal_[l] >= 0) columns_.score(diagonal_[l], l) -= static_cast<R>(rule_.margin);
    });
  }

  Columns<R> columns_;
  const RowRule& rule_;
  const std::int64_t* diagonal_;
};

template <class R>
class SelfAdjustColumns {
 public:
  SelfAdjustColumns(const RowRule& rule, const RowTile<R>& tile, std::int64_t first)
      : columns_(tile, first),
        detach_(rule.detach),
        top_(columns_.largest()),
        bottom_(columns_.smallest()),
        factor_(softmax_factor(columns_, top_)),
        low_(0),
        inverse_(0) {
    for_each_lane<R>([&](std::int64_t l) {
      const auto rule = SelfAdjustNormalized<R>::of(bottom_[l], top_[l]);
      low_[l] = rule.low;
      inverse_[l] = rule.inverse;
    });
  }

  HWY_NOINLINE void weigh() const {
    columns_.each([&](R& s, std::int64_t l) { s = at(l).weigh(s, exponential(s, top_[l]) * factor_[l]); });
  }
  HWY_NOINLINE void vjp() const {
    PerLane<R> mean(0), plain(0), to_bottom(0), to_top(0);
    columns_.each_pair([&](R s, R g, std::int64_t l) {
      const R p = exponential(s, top_[l]) * factor_[l];
      plain[l] += p == 0 ? R{0} : p * g;
      mean[l] += p == 0 ? R{0} : at(l).weigh(s, p) * g;
    });
    if (!detach_)
      for_each_lane<R>([&](std::int64_t l) {
        to_bottom[l] = at(l).vjp_smallest(bottom_[l], mean[l], plain[l]);
        to_top[l] = at(l).vjp_largest(top_[l], mean[l]);
      });
    columns_.each_pair([&](R& s, R& g, std::int64_t l) {
      const R p = exponential(s, top_[l]) * factor_[l];
      const bool is_top = s == top_[l], is_bottom = s == bottom_[l];  // of equal ones the first
      g = at(l).vjp(s, p, g, mean[l]) + (is_bottom ? to_bottom[l] : R{0}) + (is_top ? to_top[l] : R{0});
      to_bottom[l] = is_bottom ? R{0} : to_bottom[l];
      to_top[l] = is_top ? R{0} : to_top[l];
      s = at(l).weigh(s, p);
    });
  }

 private:
  HWY_INLINE SelfAdjustNormalized<R> at(std::int64_t l) const { return {low_[l], inverse_[l]}; }

  Columns<R> columns_;
  bool detach_;
  PerLane<R> top_, bottom_, factor_, low_, inverse_;
};

// Turns the scores of a tile into weights and, if it has any, gradients of the weights into those of the scores.
template <class R>
using RowFunction = void (*)(const RowRule& rule, const RowTile<R>& tile);

template <template <class> class Rows, class R>
void apply_rule(const RowRule& rule, const RowTile<R>& tile) {
  for (std::int64_t c = 0; c < tile.lanes; c += kChunk<R>) {
    const Rows<R> rows(rule, tile, c);
    tile.g == nullptr ? rows.weigh() : rows.vjp();
  }
}

template <class R>
RowFunction<R> function_of(RowRuleKind rule) {
  switch (rule) {
    case RowRuleKind::top_k: return apply_rule<TopKColumns, R>;
    case RowRuleKind::sparsemax: return apply_rule<SparsemaxColumns, R>;
    case RowRuleKind::entmax15: return apply_rule<Entmax15Columns, R>;
    case RowRuleKind::margin: return apply_rule<MarginColumns, R>;
    case RowRuleKind::self_adjust_normalized: break;
  }
  return apply_rule<SelfAdjustColumns, R>;
}

}  // namespace HWY_NAMESPACE
}  // namespace tile
}  // namespace fovea
HWY_AFTER_NAMESPACE();

#endif  // FOVEA_TILE_CPU_RULE_COLUMNS_INL_H_
