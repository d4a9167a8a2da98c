#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "fovea/inspect.h"
#include "support/families.h"
#include "support/tensors.h"

namespace fovea {
namespace {

TEST(Approximation, TellsHowFarMechanismsAreFromSoftmax) {
  Context context = testing::poisoned();
  const auto draw = [&](std::uint64_t seed) { return testing::random(context, {1, 96, 2, 8}, seed, DType::f32); };
  const std::string names[] = {"softmax", "window:left=95,right=95", "window:left=2,right=2", "topk:k=8", "linear",
                               "gla"};
  const std::int64_t lengths[] = {32, 96};
  const auto rows = approximation(context, draw(1), draw(2), draw(3), names, lengths);
  ASSERT_EQ(rows.size(), 12u);
  std::map<std::pair<std::string, std::int64_t>, ApproximationRow> of;
  for (const ApproximationRow& row : rows) of[{row.mechanism, row.length}] = row;
  for (const std::int64_t length : lengths) {
    const ApproximationRow& exact = of.at({"softmax", length});
    EXPECT_EQ(exact.output_error, 0.0);
    EXPECT_NEAR(exact.divergence, 0.0, 1e-6);
    EXPECT_EQ(exact.top_agreement, 1.0);
    EXPECT_GT(exact.seconds, 0.0);
    const ApproximationRow& kept = of.at({"topk:k=8", length});
    EXPECT_EQ(kept.top_agreement, 1.0);
    EXPECT_GT(kept.divergence, of.at({"linear", length}).divergence);  // what is cut off is missed most
    EXPECT_GT(of.at({"window:left=2,right=2", length}).output_error, kept.output_error);
    EXPECT_FALSE(of.at({"gla", length}).reason.empty());
    EXPECT_TRUE(std::isnan(of.at({"gla", length}).output_error));
  }
  EXPECT_NEAR(of.at({"window:left=95,right=95", 96}).output_error, 0.0, 1e-6);
  const std::int64_t wrong[] = {97};
  EXPECT_THROW(approximation(context, draw(1), draw(2), draw(3), names, wrong), Error);
}

double loss_of(Context& context, const Model& model, const Batch& batch) {
  Tape tape(context, {.record = false});
  return model.loss(tape, batch).value.value().item();
}

// The rows of the last projection of a layer that a head of two channels meets.
Tensor rows_of_head(const Model& model, std::int64_t layer, std::int64_t head) {
  for (const Parameter& parameter : model.parameters())
    if (parameter.name.find("attention.out.weight") != std::string::npos && layer-- == 0)
      return parameter.var.value().slice(0, 2 * head, 2 * head + 2);
  return {};
}

void multiply(const Tensor& x, double factor) {
  std::vector<double> values = x.to_vector<double>();
  for (double& value : values) value *= factor;
  x.copy_from(Tensor::wrap(values.data(), x.shape(), DType::f64));
}

// A gate on a head is a factor on the rows of the last projection that it meets: its slope by differences.
TEST(HeadImportance, IsTheSlopeOfTheLossAndLeavesGradientsAlone) {
  Context context = testing::poisoned();
  const Model model(context, families::family("transformer"));
  Batch batch = families::random_batch(context, model.config(), 4);
  batch.input.ids = batch.input.ids.slice(1, 5, 14).contiguous(context);  // one sequence: no mean of magnitudes
  batch.input.rows = {.lengths = {}, .cu_seqlens = {0, 9}};
  batch.targets = batch.targets.slice(0, 1, 2).contiguous(context);
  batch.examples = {0};
  const Var& parameter = model.parameters()[0].var;
  parameter.slot()->grad = Tensor::zeros(context, parameter.shape(), DType::f64);
  const std::vector<HeadImportance> heads = head_importance(context, model, batch, true);
  ASSERT_EQ(heads.size(), 8u);  // two layers of four
  const double whole = loss_of(context, model, batch);
  for (std::int64_t layer = 0; layer < 2; ++layer) {
    double slopes[4], squares = 0.0;
    for (std::int64_t h = 0; h < 4; ++h) {
      const Tensor rows = rows_of_head(model, layer, h), before = rows.clone(context);
      constexpr double kStep = 1e-4;
      multiply(rows, 1.0 + kStep);
      const double above = loss_of(context, model, batch);
      rows.copy_from(before);
      multiply(rows, 1.0 - kStep);
      slopes[h] = std::abs(above - loss_of(context, model, batch)) / (2.0 * kStep);
      rows.fill(0.0);
      EXPECT_NEAR(heads[static_cast<std::size_t>(4 * layer + h)].by_ablation, loss_of(context, model, batch) - whole,
                  1e-9);
      rows.copy_from(before);
      squares += slopes[h] * slopes[h];
    }
    for (std::int64_t h = 0; h < 4; ++h)
      EXPECT_NEAR(heads[static_cast<std::size_t>(4 * layer + h)].by_gradient, slopes[h] / std::sqrt(squares), 1e-4);
  }
  EXPECT_EQ(parameter.grad().to_vector<double>()[0], 0.0);
  EXPECT_FALSE(model.parameters()[1].var.grad().defined());
}

// A head whose part of the last projection is zero does nothing.
TEST(HeadImportance, OfAHeadThatNobodyReadsIsZero) {
  Context context = testing::poisoned();
  const Model model(context, families::family("transformer"));
  const Batch batch = families::random_batch(context, model.config(), 4);
  rows_of_head(model, 0, 1).fill(0.0);
  const std::vector<HeadImportance> heads = head_importance(context, model, batch, true);
  EXPECT_NEAR(heads[1].by_gradient, 0.0, 1e-12);
  EXPECT_NEAR(heads[1].by_ablation, 0.0, 1e-12);
  EXPECT_GT(heads[0].by_gradient, 1e-6);
}

// Heads go in the order of what they are worth, and none of them but the last of a layer is left.
TEST(HeadPruning, TakesOutTheLeastImportantFirst) {
  Context context = testing::poisoned();
  const Model model(context, families::family("transformer"));
  const Batch batch = families::random_batch(context, model.config(), 4);
  for (const bool ablation : {false, true}) {
    const std::vector<HeadImportance> heads = head_importance(context, model, batch, ablation);
    const HeadPruning pruning = head_pruning(context, model, batch, heads, 100);
    ASSERT_EQ(pruning.order.size(), 6u);  // of eight, one in each of two layers stays
    ASSERT_EQ(pruning.steps.size(), 7u);
    const auto worth = [&](std::int64_t i) {
      const HeadImportance& head = heads[static_cast<std::size_t>(i)];
      return ablation ? head.by_ablation : head.by_gradient;
    };
    const double least = worth(pruning.order[0]);
    for (std::int64_t i = 0; i < 8; ++i) EXPECT_GE(worth(i), least);
    for (std::int64_t step = 0; step < 7; ++step)
      EXPECT_EQ(pruning.steps[static_cast<std::size_t>(step)].removed, step);
    EXPECT_NEAR(pruning.steps[0].loss, loss_of(context, model, batch), 1e-12);
    if (ablation) {
      EXPECT_NEAR(pruning.steps[1].loss - pruning.steps[0].loss, least, 1e-9);
    }
  }
  const std::vector<HeadImportance> heads = head_importance(context, model, batch);
  const HeadPruning some = head_pruning(context, model, batch, heads, 2);
  ASSERT_EQ(some.steps.size(), 3u);
  EXPECT_EQ(some.steps[1].removed, 3);
  EXPECT_EQ(some.steps[2].removed, 6);
  EXPECT_THROW(head_pruning(context, model, batch, heads, 0), Error);
}

// What a model hands to its layers: softmax in place of itself is no other.
TEST(Approximation, OfAModelReadsItsOwnCalls) {
  Context context = testing::poisoned();
  const Model model(context, families::family("transformer"));
  const Batch batch = families::random_batch(context, model.config(), 4);
  const std::string names[] = {"softmax", "linear"};
  const std::int64_t lengths[] = {2, 1000};
  const auto found = approximation(context, model, batch, names, lengths);
  ASSERT_EQ(found.size(), 8u);  // two layers, two tokens and all, two mechanisms
  for (const LayerApproximation& of : found) {
    EXPECT_EQ(of.place, "model.layers[" + std::to_string(of.layer) + "].attention");
    ASSERT_EQ(of.row.reason, "");
    if (of.row.mechanism == "softmax") {
      EXPECT_EQ(of.row.output_error, 0.0);
      EXPECT_EQ(of.row.top_agreement, 1.0);
    } else {
      EXPECT_GT(of.row.output_error, 0.0);
    }
  }
  EXPECT_EQ(found[0].row.length, 2);
  EXPECT_GT(found[2].row.length, 2);
}

// With all queries kept, informer is softmax: of q and k that are turned for it, too.
TEST(Approximation, OfRotaryModelsTurnsForThoseThatDoNot) {
  Context context = testing::poisoned();
  const Model model(context, families::family("llama"));
  const Batch batch = families::random_batch(context, model.config(), 4);
  const std::string names[] = {"linear", "performer", "informer:factor=100"};
  for (const LayerApproximation& of : approximation(context, model, batch, names)) {
    EXPECT_EQ(of.row.reason, "") << of.row.mechanism;
    EXPECT_TRUE(std::isfinite(of.row.output_error)) << of.row.mechanism;
    if (of.row.mechanism == names[2]) {
      EXPECT_LT(of.row.output_error, 1e-6);
    }
  }
}

}  // namespace
}  // namespace fovea
