#include <gtest/gtest.h>

#include "nn/graph_memory.h"
#include "nn/reversible_norm.h"
#include "nn/series.h"
#include "nn/stack.h"
#include "support/gradcheck.h"

namespace fovea::nn {
namespace {

class SeriesLayers : public ::testing::Test {
 protected:
  Scope scope() { return Scope(context_, DType::f64, parameters_); }
  // Values that are exact in f32, as measurements are.
  Tensor measured(const Shape& shape, std::uint64_t seed) {
    return testing::random(context_, shape, seed, DType::f32, 3.0);
  }

  Context context_ = testing::poisoned();
  std::vector<Parameter> parameters_;
};

TEST_F(SeriesLayers, ReversibleNormGoesBackToWhereItCameFrom) {
  const ReversibleNorm norm(scope(), 5);
  for (const Parameter& p : parameters_) p.var.value().copy_from(testing::random(context_, {5}, 1));
  const Tensor x = measured({3, 7, 5}, 2);
  for (std::int64_t i = 0; i < 7; ++i) x.data<float>()[i * 5] = 2.5f;  // never changes
  Tape tape(context_, {.record = false});
  const ChannelMoments statistics = norm.measure(context_, x);
  const Var back = norm.restore(tape, norm.normalize(tape, x, statistics), statistics);
  EXPECT_LT(testing::relative_error(back.value(), x.to(context_, DType::f64)), 1e-12);
}

TEST_F(SeriesLayers, ReversibleNormGivesEverySeriesMeanZeroAndDeviationOne) {
  const ReversibleNorm norm(scope(), 2);
  const Tensor x = measured({2, 50, 2}, 2);
  Tape tape(context_, {.record = false});
  const auto y = norm.normalize(tape, x, norm.measure(context_, x)).value().to_vector<double>();
  for (std::size_t series = 0; series < 4; ++series) {
    double mean = 0.0, square = 0.0;
    for (std::size_t i = 0; i < 50; ++i) {
      const double v = y[(series / 2 * 50 + i) * 2 + series % 2];
      mean += v / 50, square += v * v / 50;
    }
    EXPECT_NEAR(mean, 0.0, 1e-12);
    EXPECT_NEAR(square, 1.0, 1e-5);
  }
}

TEST_F(SeriesLayers, ReversibleNormHasItsGradient) {
  const ReversibleNorm norm(scope(), 3);
  for (const Parameter& p : parameters_) p.var.value().copy_from(testing::random(context_, {3}, 1));
  const Tensor x = measured({2, 4, 3}, 2);
  const auto statistics = norm.measure(context_, x);
  testing::expect_gradients(context_,
                            [&](Tape& tape, std::span<const Var> in) {
                              return norm.restore(tape, mul(tape, norm.normalize(tape, x, statistics), in[0]),
                                                  statistics);
                            },
                            {testing::random(context_, {2, 4, 3}, 6)});
}

TEST_F(SeriesLayers, DistillingHalvesTheRowsRoundedUp) {
  StackConfig config;
  config.width = 4;
  const DistilLayer layer(scope(), config);
  Tape tape(context_, {.record = false});
  for (const std::int64_t n : {1, 2, 5, 8}) {
    const Source y = layer(tape, {testing::random(context_, {2, n, 4}, 1), full_layout(context_, 2, n)});
    EXPECT_EQ(y.rows.shape(), (Shape{2, (n + 1) / 2, 4}));
    EXPECT_EQ(y.layout->positions.shape(), (Shape{2, (n + 1) / 2}));
  }
}

TEST_F(SeriesLayers, DistillingHasItsGradient) {
  StackConfig config;
  config.width = 3;
  const DistilLayer layer(scope(), config);
  testing::expect_gradients(context_,
                            [&](Tape& tape, std::span<const Var> in) {
                              return layer(tape, {in[0], full_layout(context_, 2, 5)}).rows;
                            },
                            {testing::random(context_, {2, 5, 3}, 1)});
}

SeriesConfig small_series(bool recurrent) {
  return {.kind = Forecaster::memformer,
          .length = 7,
          .horizon = 2,
          .channels = 3,
          .patch = 4,
          .stride = 2,
          .memory_rows = 2,
          .memory_width = 3,
          .recurrent = recurrent};
}

TEST_F(SeriesLayers, GraphMemoryHasItsGradient) {
  for (const bool recurrent : {false, true}) {
    const GraphMemory memory(scope() / static_cast<std::int64_t>(recurrent), small_series(recurrent));
    testing::expect_gradients(context_, [&](Tape& tape, std::span<const Var> in) { return memory(tape, in[0]); },
                              {testing::random(context_, {2, 3, 3, 4}, 1)});
  }
}

// Only the recurrent form carries anything from patch to patch, and never backwards.
TEST_F(SeriesLayers, GraphMemoryWalksForward) {
  for (const bool recurrent : {false, true}) {
    const GraphMemory memory(scope() / static_cast<std::int64_t>(recurrent), small_series(recurrent));
    Tape tape(context_, {.record = false});
    const Tensor x = testing::random(context_, {1, 3, 3, 4}, 1);
    const auto before = memory(tape, x).value().to_vector<double>();
    x.slice(2, 1, 2).fill(0.5);  // the middle patch of all channels
    const auto after = memory(tape, x).value().to_vector<double>();
    for (std::size_t i = 0; i < before.size(); ++i) {
      const std::size_t patch = i / 7 % 3;
      if (patch == 0 || (patch == 2 && !recurrent)) {
        EXPECT_EQ(after[i], before[i]) << i;
      } else {
        EXPECT_NE(after[i], before[i]) << i;
      }
    }
  }
}

TEST_F(SeriesLayers, AMemoryOfOneRowAnswersAlwaysTheSame) {
  SeriesConfig series = small_series(false);
  series.memory_rows = 1;
  const GraphMemory memory(scope(), series);
  Tape tape(context_, {.record = false});
  const auto y = memory(tape, testing::random(context_, {2, 3, 3, 4}, 1)).value().to_vector<double>();
  const auto row = parameters_[0].var.value().to_vector<double>();
  for (std::size_t i = 0; i < y.size(); ++i)
    if (i % 7 >= 4) {
      EXPECT_NEAR(y[i], row[i % 7 - 4], 1e-15);
    }
}

// What stands between two blocks sees the whole sum, in pre-norm stacks too.
TEST_F(SeriesLayers, StacksRunWithSomethingBetweenBlocks) {
  for (const NormPlacement placement : {NormPlacement::pre, NormPlacement::post}) {
    StackSpec spec;
    spec.width = 6, spec.inner = 5, spec.dtype = DType::f64, spec.placement = placement;
    const Stack stack(scope() / static_cast<std::int64_t>(placement), spec);
    const Var x = testing::random(context_, {1, 7, 6}, 2);
    const auto layout = full_layout(context_, 1, 7);
    Tape tape(context_, {.record = false});
    const Var plain = stack(tape, x, layout);
    const auto pass = [](Tape&, const Source& rows, std::size_t) { return rows; };
    EXPECT_LT(testing::relative_error(stack.run(tape, {x, layout}, {}, pass).rows.value(), plain.value()), 1e-13);
    const auto cut = [&](Tape& t, const Source& rows, std::size_t block) -> Source {
      EXPECT_EQ(block, 0U);
      return {slice(t, rows.rows, 1, 0, 3), full_layout(context_, 1, 3)};
    };
    EXPECT_EQ(stack.run(tape, {x, layout}, {}, cut).rows.shape(), (Shape{1, 3, 6}));
  }
}

}  // namespace
}  // namespace fovea::nn
