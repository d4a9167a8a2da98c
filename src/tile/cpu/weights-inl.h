// The passes over a score tile that a weight consists of. The kernels call them through a table, one for each weight
// and accumulation type: a new weight adds two loops and no kernel.

#if defined(FOVEA_TILE_CPU_WEIGHTS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef FOVEA_TILE_CPU_WEIGHTS_INL_H_
#undef FOVEA_TILE_CPU_WEIGHTS_INL_H_
#else
#define FOVEA_TILE_CPU_WEIGHTS_INL_H_
#endif

#include <cstdint>

#include "hwy/highway.h"
#include "policy/pointwise_weight.h"
#include "policy/softmax.h"
#include "tile/contract.h"
#include "tile/cpu/score-inl.h"

HWY_BEFORE_NAMESPACE();
namespace fovea {
namespace tile {
namespace HWY_NAMESPACE {

// What a pass over a tile needs of its rows, one per lane.
template <class R>
struct RowTerms {
  const R* statistic;
  const R* delta;
};

template <class R>
struct WeightPasses {
  bool has_top;  // a running maximum, a sum and a saved statistic, all as softmax has them
  R unit;        // of the scores
  // s: scores in, weights out; `sum` collects what the weights are divided by. s is [keys x lanes].
  void (*weigh)(const Problem& problem, const TileAt& at, R* s, const R* top, R* sum);
  // s: scores in, weights out; ds: gradients of the weights in, of the scores out. Both are [keys x lanes].
  void (*weigh_back)(const Problem& problem, const TileAt& at, R* s, R* ds, const RowTerms<R>& rows);
};

// The policy with this problem's numbers.
template <class W>
inline W policy_of(const Problem&) {
  return {};
}
template <>
inline SigmoidWeight policy_of(const Problem& problem) {
  return {problem.offset};
}
template <>
inline PolynomialWeight policy_of(const Problem& problem) {
  return problem.weight == Weight::power ? PolynomialWeight::power(problem.degree)
                                         : PolynomialWeight::taylor(problem.degree);
}

// Keys are the outer loop, so that a lane's sum is not needed again at once: with lanes outside, the d 32 forward was a
// tenth slower. The pointers are parameters because only there the compiler trusts `restrict`.

template <class W, class R>
HWY_NOINLINE void weigh_shares(const Problem&, const TileAt& at, R* HWY_RESTRICT s, const R* HWY_RESTRICT top,
                               R* HWY_RESTRICT sum) {
  const std::int64_t keys = at.kc, lanes = at.lanes;
  for (std::int64_t j = 0; j < keys; ++j, s += lanes)
    for (std::int64_t c = 0; c < lanes; c += kChunk<R>)
      for (std::int64_t l = c; l < c + kChunk<R>; ++l) {
        const R share = W::weigh(s[l], top[l]);
        sum[l] += share;
        s[l] = W::weight(s[l], share);
      }
}

template <class W, class R>
HWY_NOINLINE void vjp_shares(const Problem&, const TileAt& at, R* HWY_RESTRICT s, R* HWY_RESTRICT ds,
                             const RowTerms<R>& rows) {
  const R* HWY_RESTRICT statistic = rows.statistic;
  const R* HWY_RESTRICT delta = rows.delta;
  const std::int64_t keys = at.kc, lanes = at.lanes;
  for (std::int64_t j = 0; j < keys; ++j, s += lanes, ds += lanes)
    for (std::int64_t c = 0; c < lanes; c += kChunk<R>)
      for (std::int64_t l = c; l < c + kChunk<R>; ++l) {
        const R share = W::again(s[l], statistic[l]);
        ds[l] = W::vjp(s[l], share, ds[l], delta[l]);
        s[l] = W::weight(s[l], share);
      }
}

template <class W, class R>
HWY_NOINLINE void weigh_points(const Problem& problem, const TileAt& at, R* HWY_RESTRICT s, const R*, R*) {
  const W policy = policy_of<W>(problem);
  const std::int64_t size = at.kc * at.lanes;
  for (std::int64_t c = 0; c < size; c += kChunk<R>)
    for (std::int64_t l = c; l < c + kChunk<R>; ++l) s[l] = policy.weigh(s[l]);
}

template <class W, class R>
HWY_NOINLINE void vjp_points(const Problem& problem, const TileAt& at, R* HWY_RESTRICT s, R* HWY_RESTRICT ds,
                             const RowTerms<R>&) {
  const W policy = policy_of<W>(problem);
  const std::int64_t size = at.kc * at.lanes;
  for (std::int64_t c = 0; c < size; c += kChunk<R>)
    for (std::int64_t l = c; l < c + kChunk<R>; ++l) {
      const R weight = policy.weigh(s[l]);
      ds[l] = policy.vjp(s[l], weight, ds[l]);
      s[l] = weight;
    }
}

template <class W, class R>
WeightPasses<R> passes() {
  if constexpr (W::kHasTop)
    return {true, W::template kUnit<R>, weigh_shares<W, R>, vjp_shares<W, R>};
  else
    return {false, W::template kUnit<R>, weigh_points<W, R>, vjp_points<W, R>};
}

template <class R>
WeightPasses<R> passes_of(Weight weight) {
  switch (weight) {
    case Weight::rela: return passes<Rela, R>();
    case Weight::relu2: return passes<Relu2, R>();
    case Weight::sigmoid: return passes<SigmoidWeight, R>();
    case Weight::exp: return passes<ExponentialWeight, R>();
    case Weight::power:
    case Weight::taylor: return passes<PolynomialWeight, R>();
    case Weight::self_adjust: return passes<SelfAdjust, R>();
    case Weight::softmax: break;
  }
  return passes<Softmax, R>();
}

}  // namespace HWY_NAMESPACE
}  // namespace tile
}  // namespace fovea
HWY_AFTER_NAMESPACE();

#endif  // FOVEA_TILE_CPU_WEIGHTS_INL_H_
