#include "mechanisms/scanned.h"

#include <gtest/gtest.h>

#include <cmath>

#include "unit/mechanisms/mechanism_calls.h"

namespace fovea {
namespace {

// A scan whose decay depends on the step (rank 3) or on step and channel (rank 4), on one padded and one full sequence.
class ScannedDecay : public MechanismCalls, public ::testing::TestWithParam<std::size_t> {
 protected:
  static constexpr std::int64_t kBatch = 2, kRows = 21, kHeads = 4, kKvHeads = 2, kDk = 6, kDv = 5;

  ScannedDecay() {
    q_ = random({kBatch, kRows, kHeads, kDk}, 1);
    k_ = random({kBatch, kRows, kKvHeads, kDk}, 2);
    v_ = random({kBatch, kRows, kKvHeads, kDv}, 3);
  }

  // -size |x|
  Tensor decays(const Shape& shape, double size) {
    Values values = random(shape, 5, size).value().to_vector<double>();
    for (double& x : values) x = -std::abs(x);
    return Tensor::from<double>(context_, shape, values);
  }
  Shape decay_shape() const {
    return GetParam() == 4 ? Shape{kBatch, kRows, kKvHeads, kDk} : Shape{kBatch, kRows, kKvHeads};
  }
  AttentionResult run(Tape& tape, DType dtype, const Var& log_decay) {
    const auto var = [&](const Var& x) { return Var::leaf(x.value().to(context_, dtype)); };
    const Call call{tape, var(q_), var(k_), var(v_), mechanism_, options_, sequences_, sequences_};
    return run_scanned(call, {.log_decay = log_decay});
  }
  // sum of o d_o by the definition
  double loss(const std::vector<double>& log_decay) const {
    double sum = 0.0;
    for (const Sequences::Rows& rows : sequences_) {
      const auto part = [&](const std::vector<double>& x) {
        const std::size_t row = x.size() / static_cast<std::size_t>(kBatch * kRows);
        const auto first = x.begin() + static_cast<std::ptrdiff_t>(row) * (rows.batch * kRows + rows.begin);
        return std::vector<double>(first, first + static_cast<std::ptrdiff_t>(row) * rows.count);
      };
      reference::Problem p;
      p.n_q = p.n_k = rows.count;
      p.heads = kHeads;
      p.kv_heads = kKvHeads;
      p.d_k = kDk;
      p.d_v = kDv;
      p.causal = true;
      p.q = part(q_.value().to_vector<double>());
      p.k = part(k_.value().to_vector<double>());
      p.v = part(v_.value().to_vector<double>());
      p.log_decay = part(log_decay);
      const std::vector<double> o = reference::kernelized(p, {nullptr}).o, d_o = part(d_o_.to_vector<double>());
      for (std::size_t i = 0; i < o.size(); ++i) sum += o[i] * d_o[i];
    }
    return sum;
  }

  Mechanism mechanism_{"linear"};
  AttentionOptions options_{.causal = true};
  std::vector<Sequences::Rows> sequences_{{0, 0, kRows}, {1, 2, kRows - 5}};
  Tensor d_o_ = random({kBatch, kRows, kHeads, kDv}, 4).value();
};
INSTANTIATE_TEST_SUITE_P(Ranks, ScannedDecay, ::testing::Values(3, 4));

TEST_P(ScannedDecay, MatchesTheDefinitionAndItsSlope) {
  const Tensor decay = decays(decay_shape(), 0.8);
  std::vector<double> direction = random(decay_shape(), 6).value().to_vector<double>(), shifted[2];
  for (double sign : {1.0, -1.0}) {
    std::vector<double>& x = shifted[sign < 0];
    x = decay.to_vector<double>();
    for (std::size_t i = 0; i < x.size(); ++i) x[i] += sign * 1e-6 * direction[i];
  }
  for (const DType dtype : {DType::f64, DType::f32, DType::bf16}) {
    Tape tape(context_);
    const Var leaf = Var::leaf(decay.to(context_, dtype));
    const AttentionResult result = run(tape, dtype, leaf);
    const double tolerance = dtype == DType::f64 ? 1e-7 : dtype == DType::f32 ? 1e-4 : 0.05;
    double found = 0.0, slope = 0.0, size = 0.0;
    const std::vector<double> o = result.output.value().to(context_, DType::f64).to_vector<double>();
    for (std::size_t i = 0; i < o.size(); ++i) found += o[i] * d_o_.to_vector<double>()[i];
    EXPECT_NEAR(found, loss(decay.to_vector<double>()), tolerance * std::sqrt(static_cast<double>(o.size())));

    tape.backward(result.output, d_o_.to(context_, dtype));
    const std::vector<double> gradient = leaf.grad().to(context_, DType::f64).to_vector<double>();
    for (std::size_t i = 0; i < gradient.size(); ++i) {
      slope += gradient[i] * direction[i];
      size += std::abs(gradient[i] * direction[i]);
    }
    EXPECT_NEAR(slope, (loss(shifted[0]) - loss(shifted[1])) / 2e-6, tolerance * size);
  }
}

TEST_P(ScannedDecay, RefusesAnotherShape) {
  Tape tape(context_);
  const Var wrong = Var::leaf(decays({kBatch, kRows, kKvHeads + 1}, 1.0));
  EXPECT_THROW(run(tape, DType::f64, wrong), Error);
}

}  // namespace
}  // namespace fovea
