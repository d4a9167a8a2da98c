// The norms of channels and of weights against their definitions, the laws of their gradients, and what they refuse.

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "fovea/ops.h"
#include "support/expect_error.h"
#include "support/gradcheck.h"
#include "unit/ops/ops_fixture.h"

namespace fovea::testing {
namespace {

class ChannelNorms : public OpsTest {
 protected:
  ChannelNorms() : OpsTest(90) {}

  BatchNorm batch(std::int64_t width, double eps = 1e-5) {
    BatchNorm norm{.eps = eps};
    norm.running_mean = Tensor::zeros(context_, {width}, DType::f64);
    norm.running_var = Tensor::zeros(context_, {width}, DType::f64);
    norm.running_var.fill(1.0);
    return norm;
  }
};

// One way to normalise (b, n, d), and which elements of it are measured together: equal numbers.
struct Kind {
  std::string name;
  std::function<Var(Tape&, const Var&, const Sequences&, double)> f;
  std::function<std::int64_t(std::int64_t sequence, std::int64_t row, std::int64_t channel)> set;
};

std::vector<Kind> kinds() {
  const auto batch = [](Tape& t, const Var& x, const Sequences& rows, double eps) {
    BatchNorm norm{.eps = eps};
    norm.running_mean = Tensor::zeros(t.context(), {x.dim(2)}, DType::f64);
    norm.running_var = Tensor::zeros(t.context(), {x.dim(2)}, DType::f64);
    return batch_norm(t, x, rows, norm);
  };
  const auto group = [](bool per_token) {
    return [per_token](Tape& t, const Var& x, const Sequences& rows, double eps) {
      return group_norm(t, x, rows, {.groups = 2, .eps = eps, .per_token = per_token});
    };
  };
  const auto instance = [](Tape& t, const Var& x, const Sequences& rows, double eps) {
    return instance_norm(t, x, rows, {.eps = eps});
  };
  return {{"batch", batch, [](auto, auto, auto c) { return c; }},
          {"instance", instance, [](auto s, auto, auto c) { return 100 * s + c; }},
          {"group", group(false), [](auto s, auto, auto c) { return 100 * s + c / 3; }},
          {"tokens", group(true), [](auto s, auto i, auto c) { return 10000 * s + 100 * i + c / 3; }}};
}

// The set of every element of (b, n, 6); -1 for padding.
std::vector<std::int64_t> sets_of(const Kind& kind, const Shape& shape, const Sequences& rows) {
  std::vector<std::int64_t> sets(static_cast<std::size_t>(shape.numel()), -1);
  const auto sequences = rows.rows(shape.dim(0), shape.dim(1), "rows");
  for (std::size_t s = 0; s < sequences.size(); ++s)
    for (std::int64_t i = 0; i < sequences[s].count; ++i)
      for (std::int64_t c = 0; c < shape.dim(2); ++c)
        sets[static_cast<std::size_t>(((sequences[s].batch * shape.dim(1) + sequences[s].begin + i) * shape.dim(2)) +
                                      c)] = kind.set(static_cast<std::int64_t>(s), i, c);
  return sets;
}

// The mean of f(i) over the elements of one set.
double mean_over(const std::vector<std::int64_t>& sets, std::int64_t set, const std::function<double(std::size_t)>& f) {
  double sum = 0.0, count = 0.0;
  for (std::size_t i = 0; i < sets.size(); ++i)
    if (sets[i] == set) sum += f(i), count += 1.0;
  return sum / count;
}

struct Batch {
  Shape shape;
  Sequences rows;
};
const Batch kBatches[] = {{{2, 5, 6}, {}}, {{3, 5, 6}, {{5, 0, 3}, {}}}, {{1, 9, 6}, {{}, {0, 4, 4, 7}}}};

// By the definition, two passes over each set; padding is NaN going in and 0 coming out.
TEST_F(ChannelNorms, AreTheirDefinition) {
  constexpr double kEps = 0.01;
  for (const Kind& kind : kinds())
    for (const auto& [shape, rows] : kBatches) {
      SCOPED_TRACE(kind.name + " " + shape.text());
      const Tensor x = draw(shape);
      const std::vector<std::int64_t> sets = sets_of(kind, shape, rows);
      for (std::size_t i = 0; i < sets.size(); ++i)
        if (sets[i] < 0) x.data<double>()[i] = NAN;
      Tape tape(context_, kTraining);
      const std::vector<double> in = x.to_vector<double>(), y = kind.f(tape, x, rows, kEps).value().to_vector<double>();
      for (std::size_t i = 0; i < in.size(); ++i) {
        if (sets[i] < 0) {
          EXPECT_EQ(y[i], 0.0);
          continue;
        }
        const double mean = mean_over(sets, sets[i], [&](std::size_t k) { return in[k]; });
        const double var = mean_over(sets, sets[i], [&](std::size_t k) { return (in[k] - mean) * (in[k] - mean); });
        EXPECT_NEAR(y[i], (in[i] - mean) / std::sqrt(var + kEps), 1e-12) << i;
      }
    }
}

// A common shift and a common factor of a set change nothing, so its gradient is orthogonal to both; padding gets none.
TEST_F(ChannelNorms, GradientsAreOrthogonalToShiftAndScale) {
  for (const Kind& kind : kinds())
    for (const auto& [shape, rows] : kBatches) {
      SCOPED_TRACE(kind.name + " " + shape.text());
      const Var x = Var::leaf(draw(shape));
      Tape tape(context_, kTraining);
      const Var y = kind.f(tape, x, rows, 0.0);
      const std::vector<double> xhat = y.value().to_vector<double>();
      tape.backward(y, draw(shape));
      const std::vector<double> dx = x.grad().to_vector<double>();
      const std::vector<std::int64_t> sets = sets_of(kind, shape, rows);
      for (std::size_t i = 0; i < sets.size(); ++i) {
        if (sets[i] < 0) {
          EXPECT_EQ(dx[i], 0.0);
          continue;
        }
        EXPECT_NEAR(mean_over(sets, sets[i], [&](std::size_t k) { return dx[k]; }), 0.0, 1e-12);
        EXPECT_NEAR(mean_over(sets, sets[i], [&](std::size_t k) { return dx[k] * xhat[k]; }), 0.0, 1e-12);
      }
    }
}

TEST_F(ChannelNorms, DoNotSeeShiftAndScale) {
  for (const Kind& kind : kinds()) {
    SCOPED_TRACE(kind.name);
    const Tensor x = draw({2, 5, 6}), moved = draw({2, 5, 6});
    for (std::int64_t i = 0; i < x.numel(); ++i) moved.data<double>()[i] = 3.0 * x.data<double>()[i] - 70.0;
    Tape tape(context_, kTraining);
    EXPECT_LT(relative_error(kind.f(tape, moved, {}, 0.0).value(), kind.f(tape, x, {}, 0.0).value()), 1e-12);
  }
}

// Constant input becomes the bias; gradients stay finite. A large offset does not drown the variance.
TEST_F(ChannelNorms, HardInputs) {
  for (const Kind& kind : kinds()) {
    SCOPED_TRACE(kind.name);
    const Var flat = Var::leaf(Tensor::zeros(context_, {2, 4, 6}, DType::f64));
    flat.value().fill(1e6);
    Tape tape(context_, kTraining);
    const Var y = kind.f(tape, flat, {}, 1e-5);
    tape.backward(y, draw({2, 4, 6}));
    for (double v : y.value().to_vector<double>()) EXPECT_EQ(v, 0.0);
    for (double g : flat.grad().to_vector<double>()) EXPECT_TRUE(std::isfinite(g));
  }
  const Tensor x = draw({2, 300, 6}, DType::f32);
  for (std::int64_t i = 0; i < x.numel(); ++i) x.data<float>()[i] += 1000.0f;
  Tape tape(context_, kTraining);
  EXPECT_LT(
      relative_error(instance_norm(tape, x, {}).value(), instance_norm(tape, x.to(context_, DType::f64), {}).value()),
      1e-4);
}

TEST_F(ChannelNorms, RunningValuesMoveInTrainingAndServeInEvaluation) {
  const BatchNorm norm = batch(1, 0.5);
  const Tensor x = values({2, 2, 1}, {1, 3, 8, NAN});  // mean 4, variance 26 / 3 biased, 13 unbiased
  const Sequences rows{{2, 1}, {}};
  Tape tape(context_, kTraining);
  const double trained = batch_norm(tape, x, rows, norm).value().to_vector<double>()[2];
  EXPECT_NEAR(trained, 4.0 / std::sqrt(26.0 / 3 + 0.5), 1e-12);
  EXPECT_NEAR(norm.running_mean.item(), 0.4, 1e-15);
  EXPECT_NEAR(norm.running_var.item(), 0.9 + 1.3, 1e-15);
  Tape evaluation(context_);
  const Var leaf = Var::leaf(x);
  const Var y = batch_norm(evaluation, leaf, rows, norm);
  const double factor = 1.0 / std::sqrt(2.2 + 0.5);
  EXPECT_NEAR(y.value().to_vector<double>()[1], (3 - 0.4) * factor, 1e-12);
  evaluation.backward(y, values({2, 2, 1}, {1, 2, 3, NAN}));
  const std::vector<double> dx = leaf.grad().to_vector<double>(), want{factor, 2 * factor, 3 * factor, 0};
  for (std::size_t i = 0; i < want.size(); ++i) EXPECT_NEAR(dx[i], want[i], 1e-15);  // statistics are constants here
  EXPECT_NEAR(norm.running_mean.item(), 0.4, 1e-15);
}

// An overflow makes a step useless, not the model.
TEST_F(ChannelNorms, RunningValuesStayFinite) {
  const BatchNorm norm = batch(2);
  Tape tape(context_, kTraining);
  batch_norm(tape, values({1, 2, 2}, {INFINITY, 1, 2, 3}), {}, norm);
  EXPECT_EQ(norm.running_mean.to_vector<double>(), (std::vector<double>{0, 0.2}));
  EXPECT_EQ(norm.running_var.to_vector<double>()[0], 1.0);
}

TEST_F(ChannelNorms, EvaluationGradientsMatchFiniteDifferences) {
  const auto f = [&](Tape& t, std::span<const Var> v) {
    BatchNorm norm = batch(3);
    norm.gain = v[1];
    norm.bias = v[2];
    norm.running_mean.fill(0.3);
    return batch_norm(t, v[0], {{4, 2}, {}}, norm);
  };
  expect_gradients(context_, f, {draw({2, 4, 3}), draw({3}), draw({3})});
}

// The second run of a recompute segment does not move them again.
TEST_F(ChannelNorms, RunningValuesMoveOnceUnderRecomputation) {
  struct Normed : Segment {
    BatchNorm norm;
    std::vector<Var> run(Tape& tape, std::span<const Var> v) const override {
      return {batch_norm(tape, v[0], {}, norm)};
    }
  };
  struct Outer : Segment {
    std::shared_ptr<const Segment> inner;
    std::vector<Var> run(Tape& tape, std::span<const Var> v) const override { return recompute(tape, inner, v); }
  };
  const Var x = Var::leaf(draw({2, 3, 2}));
  const BatchNorm once = batch(2);
  Tape plain(context_, kTraining);
  batch_norm(plain, x, {}, once);
  for (const bool nested : {false, true}) {
    const auto segment = std::make_shared<Normed>();
    segment->norm = batch(2);
    const auto outer = std::make_shared<Outer>();
    outer->inner = segment;
    Tape tape(context_, kTraining);
    const std::shared_ptr<const Segment> run = nested ? std::shared_ptr<const Segment>(outer) : segment;
    tape.backward(recompute(tape, run, std::span(&x, 1)).front(), draw({2, 3, 2}));
    EXPECT_TRUE(same_bits(segment->norm.running_mean, once.running_mean)) << nested;
    EXPECT_TRUE(same_bits(segment->norm.running_var, once.running_var)) << nested;
  }
}

TEST_F(ChannelNorms, EmptyBatches) {
  const BatchNorm norm = batch(2);
  for (const Shape& shape : {Shape{0, 3, 2}, Shape{2, 0, 2}}) {
    Tape tape(context_, kTraining);
    const Var x = Var::leaf(draw(shape));
    tape.backward(sum(tape, batch_norm(tape, x, {}, norm)));
    EXPECT_EQ(x.grad().shape(), shape);
    EXPECT_EQ(instance_norm(tape, x, {}).shape(), shape);
    EXPECT_EQ(group_norm(tape, x, {}, {.groups = 2}).shape(), shape);
  }
  EXPECT_EQ(norm.running_mean.to_vector<double>(), (std::vector<double>{0, 0}));
  EXPECT_EQ(norm.running_var.to_vector<double>(), (std::vector<double>{1, 1}));
}

TEST_F(ChannelNorms, Refusals) {
  Tape tape(context_, kTraining);
  const Var x = draw({2, 3, 4});
  EXPECT_ERROR(batch_norm(tape, x, {}, {}), ErrorCode::shape, "f64(4,)", "norm.running_mean", "");
  BatchNorm narrow = batch(4);
  narrow.running_var = Tensor::zeros(context_, {4}, DType::f32);
  EXPECT_ERROR(batch_norm(tape, x, {}, narrow), ErrorCode::shape, "f64(4,)", "norm.running_var", "");
  EXPECT_ERROR(instance_norm(tape, draw({2, 3}), {}), ErrorCode::shape, "(2, 3)", "", "(batch, n, width)");
  EXPECT_ERROR(instance_norm(tape, x, {}, {.gain = draw({3})}), ErrorCode::shape, "gain of shape (3,)", "norm.gain",
               "");
  EXPECT_ERROR(instance_norm(tape, x, {}, {.eps = -1.0}), ErrorCode::usage, "negative", "norm.eps", "");
  EXPECT_ERROR(group_norm(tape, x, {}, {.groups = 3}), ErrorCode::usage, "3 groups do not divide 4", "norm.groups", "");
  EXPECT_ERROR(group_norm(tape, x, {{9, 1}, {}}, {}), ErrorCode::shape, "length 9", "rows", "");
  EXPECT_ERROR(weight_norm(tape, draw({3, 4}), draw({3})), ErrorCode::shape, "f64(3, 4)", "", "(out)");
}

TEST_F(ChannelNorms, WeightsByDirectionAndLength) {
  const Var v = Var::leaf(values({2, 2}, {3, 0, 4, 0})), s = Var::leaf(values({2}, {10, 7}));
  Tape tape(context_);
  const Var w = weight_norm(tape, v, s);
  EXPECT_EQ(w.value().to_vector<double>(), (std::vector<double>{6, 0, 8, 0}));
  tape.backward(w, values({2, 2}, {1, 1, 2, 1}));
  const std::vector<double> dv = v.grad().to_vector<double>();
  EXPECT_NEAR(dv[0] * 3 + dv[2] * 4, 0.0, 1e-14);  // orthogonal to v
  EXPECT_NEAR(dv[0], 2 * (1 - 0.6 * 2.2), 1e-14);
  EXPECT_NEAR(s.grad().to_vector<double>()[0], 0.6 + 1.6, 1e-14);
  for (std::size_t i : {1u, 3u}) EXPECT_EQ(dv[i], 0.0);  // no direction: nothing to learn from
}

}  // namespace
}  // namespace fovea::testing
