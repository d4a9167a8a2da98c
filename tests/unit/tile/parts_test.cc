// What sequence parallelism asks of the engine: parts of the rows, each seen through its own shifted pattern and with
// its own bits of dropout, give the whole.

#include <gtest/gtest.h>

#include <cmath>

#include "support/tensors.h"
#include "tile/launch.h"
#include "tile/merge.h"

namespace fovea::tile {
namespace {

using fovea::testing::random;
using fovea::testing::relative_error;

struct Span {
  std::int64_t begin, end;
};

class Parts : public ::testing::TestWithParam<Pattern> {
 protected:
  static constexpr std::int64_t kQueries = 37, kKeys = 52, kHeads = 2, kWidth = 8;
  const std::vector<Span> query_parts_{{0, 20}, {20, 37}}, key_parts_{{0, 9}, {9, 40}, {40, 52}};

  // The pattern among some rows. Positions are counted so that the last query stands on the last key, of a part too.
  static Pattern seen(const Pattern& pattern, Span q, Span k) {
    const std::int64_t of_whole = kKeys - kQueries + q.begin, of_part = (k.end - k.begin) - (q.end - q.begin);
    return pattern.shifted(of_whole - of_part, k.begin);
  }

  Work work(Span q, Span k) const {
    Work work{.pieces = PieceList(Device::cpu)};
    work.problem.dtype = DType::f64;
    work.problem.heads = work.problem.kv_heads = kHeads;
    work.problem.d_k = work.problem.d_v = kWidth;
    work.problem.scale = 0.35;
    work.problem.dropout = {.p = 0.3f, .seed = 5, .stream = 2, .first_query = q.begin, .first_key = k.begin};
    work.pieces.add({.nq = q.end - q.begin, .nk = k.end - k.begin}, seen(GetParam(), q, k));
    return work;
  }
  Inputs inputs(Span q, Span k) const {
    return {q_.slice(1, q.begin, q.end), k_.slice(1, k.begin, k.end), v_.slice(1, k.begin, k.end)};
  }
  PartialOutput output(std::int64_t queries) const {
    return {Tensor::empty(context_, {1, queries, kHeads, kWidth}, DType::f64),
            Tensor::empty(context_, {1, queries, kHeads}, DType::f64)};
  }
  PartialOutput attend(Span q, Span k) const {
    const PartialOutput to = output(q.end - q.begin);
    forward(context_, work(q, k), {inputs(q, k), to.o, to.lse, {}});
    return to;
  }
  PartialOutput in_parts() const {
    const PartialOutput all = output(kQueries);
    for (const Span& q : query_parts_) {
      PartialOutput sum = attend(q, key_parts_[0]);
      for (std::size_t i = 1; i < key_parts_.size(); ++i) merge(context_, sum, attend(q, key_parts_[i]), sum);
      all.o.slice(1, q.begin, q.end).copy_from(sum.o);
      all.lse.slice(1, q.begin, q.end).copy_from(sum.lse);
    }
    return all;
  }

  Context context_ = fovea::testing::poisoned();
  Tensor q_ = random(context_, {1, kQueries, kHeads, kWidth}, 1), k_ = random(context_, {1, kKeys, kHeads, kWidth}, 2),
         v_ = random(context_, {1, kKeys, kHeads, kWidth}, 3);
};

TEST_P(Parts, MergeToTheWhole) {
  const PartialOutput whole = attend({0, kQueries}, {0, kKeys}), parts = in_parts();
  EXPECT_LT(relative_error(parts.o, whole.o), 1e-14);
  EXPECT_LT(relative_error(parts.lse, whole.lse), 1e-14);
}

// With the output and the log-sum-exp of the whole, the gradients of the parts add up.
TEST_P(Parts, GradientsAddUp) {
  const PartialOutput whole = attend({0, kQueries}, {0, kKeys});
  const Tensor d_o = random(context_, {1, kQueries, kHeads, kWidth}, 4);
  struct Gradients {
    Tensor q, k, v;
  };
  const auto vjp = [&](Span q, Span k) {
    const Inputs in = inputs(q, k);
    const Gradients d{Tensor::empty(context_, in.q.shape(), DType::f64),
                      Tensor::empty(context_, in.k.shape(), DType::f64),
                      Tensor::empty(context_, in.v.shape(), DType::f64)};
    const auto rows = [&](const Tensor& x) { return x.slice(1, q.begin, q.end); };
    backward(context_, work(q, k), {in, rows(whole.o), rows(whole.lse), {}, rows(d_o), {}, d.q, d.k, d.v, {}});
    return d;
  };
  const auto add = [](const Tensor& to, const Tensor& more) {
    const std::vector<double> a = to.to_vector<double>(), b = more.to_vector<double>();
    std::vector<double> sum(a.size());
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] = a[i] + b[i];
    to.copy_from(Tensor::wrap(sum.data(), to.shape(), DType::f64));
  };
  const Gradients want = vjp({0, kQueries}, {0, kKeys});
  const Gradients sum{Tensor::zeros(context_, q_.shape(), DType::f64), Tensor::zeros(context_, k_.shape(), DType::f64),
                      Tensor::zeros(context_, v_.shape(), DType::f64)};
  for (const Span& q : query_parts_)
    for (const Span& k : key_parts_) {
      const Gradients d = vjp(q, k);
      add(sum.q.slice(1, q.begin, q.end), d.q);
      add(sum.k.slice(1, k.begin, k.end), d.k);
      add(sum.v.slice(1, k.begin, k.end), d.v);
    }
  EXPECT_LT(relative_error(sum.q, want.q), 1e-13);
  EXPECT_LT(relative_error(sum.k, want.k), 1e-13);
  EXPECT_LT(relative_error(sum.v, want.v), 1e-13);
}

INSTANTIATE_TEST_SUITE_P(
    Patterns, Parts,
    ::testing::Values(Pattern::full(), Pattern::causal(), Pattern::window(9, 3), Pattern::block_diagonal(16),
                      Pattern::comb(8, 5, 8) & Pattern::causal(), Pattern::distances({0, 1, 2, 4, 8, 16, -3}),
                      ~Pattern::window(6, 2),
                      Pattern::predicate("some", [](std::int64_t q, std::int64_t k) { return (5 * q + k) % 3 != 0; }),
                      Pattern::causal().shifted(4, 0).shifted(-1, 0)));

TEST(Merge, WritesWhatOneSideHasAndReadsNothingElse) {
  const Context context = fovea::testing::poisoned();
  const auto part = [&](double o, double lse) {
    const PartialOutput out{Tensor::empty(context, {1, 3, 2, 4}, DType::f32), Tensor::empty(context, {1, 3, 2})};
    out.o.fill(o);
    out.lse.fill(lse);
    return out;
  };
  const PartialOutput some = part(2.0, 1.0), none = part(NAN, -INFINITY), to = part(NAN, NAN);
  merge(context, some, none, to);
  EXPECT_EQ(to.o.to_vector<float>(), some.o.to_vector<float>());
  merge(context, none, some, to);
  EXPECT_EQ(to.o.to_vector<float>(), some.o.to_vector<float>());
  EXPECT_EQ(to.lse.to_vector<float>(), some.lse.to_vector<float>());
  merge(context, none, none, to);
  EXPECT_EQ(to.o.to_vector<float>(), std::vector<float>(24, 0.0f));
  EXPECT_EQ(to.lse.to_vector<float>(), std::vector<float>(6, -INFINITY));
}

// Of the part that has nearly all weight, too: what it gets for its log-sum-exp is as small as the share of the other.
TEST(Merge, GradientsKeepTheDigitsOfTheSmallerShare) {
  const Context context = fovea::testing::poisoned();
  const auto part = [&](const std::vector<float>& o, float lse) {
    const std::vector<float> statistic{lse};
    return PartialOutput{Tensor::from<float>(context, {1, 1, 1, 3}, o),
                         Tensor::from<float>(context, {1, 1, 1}, statistic)};
  };
  const auto unset = [&] { return part({NAN, NAN, NAN}, NAN); };
  const PartialOutput large = part({1.5f, -0.25f, 3.0f}, 0.5f);
  const PartialOutput small = part({0.5f, 1.25f, -2.0f}, -14.5f);
  const PartialOutput none = part({NAN, NAN, NAN}, -INFINITY), merged = unset();
  const Tensor d_o = part({0.75f, -1.0f, 0.25f}, 0.0f).o;
  merge(context, large, small, merged);
  const double less = std::exp(-15.0) / (1.0 + std::exp(-15.0));  // the smaller share
  const double apart = 0.75 * 1.0 - 1.0 * -1.5 + 0.25 * 5.0;      // d_o . (large - small)
  const auto d_lse_of = [&](const PartialOutput& own, const PartialOutput& other, const Tensor& lse) {
    const PartialOutput d = unset();
    merge_backward(context, {own, other, lse, d_o, {}, d});
    return d.lse.item();
  };
  EXPECT_NEAR(d_lse_of(large, small, merged.lse) / (less * (1.0 - less) * apart), 1.0, 1e-5);
  EXPECT_NEAR(d_lse_of(small, large, merged.lse) / (-less * (1.0 - less) * apart), 1.0, 1e-5);
  EXPECT_EQ(d_lse_of(large, none, large.lse), 0.0);
  EXPECT_EQ(d_lse_of(none, large, large.lse), 0.0);
}

}  // namespace
}  // namespace fovea::tile
