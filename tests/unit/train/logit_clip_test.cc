#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "fovea/train.h"
#include "support/expect_error.h"
#include "support/families.h"
#include "support/tensors.h"
#include "support/tiny_run.h"
#include "train/logit_clip.h"

namespace fovea {
namespace {

// The largest score of every head: "model.layers[0].attention 1".
class Largest final : public AttentionWatch {
 public:
  std::int64_t top_keys() const override { return 1; }
  void on_tiled(const TiledSeen& seen) override {
    for (const TiledRun& run : seen.runs) scores_ = run.statistics.top_scores.to_vector<double>();
  }
  Var on_attention(const Call& call, const Var& output) override {
    const auto heads = static_cast<std::size_t>(call.q.dim(2));
    for (std::size_t i = 0; i < scores_.size(); ++i) {
      double& most = by_head.try_emplace(call.tape.path(call.tape.place()) + " " + std::to_string(i % heads), -INFINITY)
                         .first->second;
      most = std::max(most, scores_[i]);
    }
    scores_.clear();
    return output;
  }
  std::map<std::string, double> by_head;

 private:
  std::vector<double> scores_;
};

std::map<std::string, double> largest(Context& context, const Model& model, const Batch& batch) {
  Largest watch;
  Tape tape(context, {.record = false});
  model.forward(tape, batch);
  return watch.by_head;
}

void multiply(const Model& model, const std::string& parameter, double factor) {
  for (const Parameter& p : model.parameters()) {
    if (p.name != parameter) continue;
    std::vector<double> values = p.var.value().to_vector<double>();
    for (double& value : values) value *= factor;
    p.var.value().copy_from(Tensor::wrap(values.data(), p.var.shape(), DType::f64));
    return;
  }
  FAIL() << "no parameter " << parameter;
}

// `queries`: what makes them in the layer `first`; so large that no other layer has scores that are clipped.
void expect_clipped(const ModelConfig& config, const std::string& first, const std::string& queries) {
  Context context = testing::poisoned();
  const Model model(context, config);
  multiply(model, queries, 1000.0);
  const Batch batch = families::random_batch(context, model.config(), 4);
  const std::map<std::string, double> before = largest(context, model, batch);
  std::vector<double> scores;
  for (const auto& [head, most] : before)
    if (head.starts_with(first)) scores.push_back(most);
  std::sort(scores.begin(), scores.end());
  ASSERT_GE(scores.size(), 2u);
  const double limit = (scores[scores.size() - 1] + scores[scores.size() - 2]) / 2;  // one head is above it
  ASSERT_GT(limit, 0.0);
  LogitClip clip(context, model, limit);
  Largest outer;
  {
    const LogitClip::Watch watch(clip);
    Tape tape(context, {.record = false});
    model.forward(tape, batch);
  }
  EXPECT_EQ(outer.by_head, before);  // who watches besides is still told
  EXPECT_GE(clip.clip(), 1);
  const std::map<std::string, double> after = largest(context, model, batch);
  for (const auto& [head, most] : before)
    if (head.starts_with(first)) {
      EXPECT_NEAR(after.at(head), std::min(most, limit), 1e-9 * std::abs(most)) << head;
    }
  EXPECT_EQ(clip.clip(), 0) << "of a step that has not been";
}

TEST(LogitClip, BringsTheHeadAboveTheLimitDownToIt) {
  expect_clipped(families::family("transformer"), "model.layers[0].attention", "layers.0.attention.qkv.weight");
}
TEST(LogitClip, OfSharedKeysScalesTheQueriesAlone) {
  ModelConfig config = families::family("llama");
  config.kv_heads = 2;
  expect_clipped(config, "model.layers[0].attention", "layers.0.attention.qkv.weight");
}
TEST(LogitClip, KnowsCrossAttention) {
  expect_clipped(families::family("seq2seq"), "model.decoder.layers[0].cross", "decoder.layers.0.cross.q.weight");
}

TEST(LogitClip, RunsInTraining) {
  TrainConfig config = tiny::quick();
  tiny::TinyRun free(config);
  free.go();
  for (const StepReport& report : free.steps) EXPECT_EQ(report.clipped, 0);
  config.clip_logits = 1e-3;
  tiny::TinyRun bound(config);
  bound.go();
  std::int64_t clipped = 0;
  for (const StepReport& report : bound.steps) clipped += report.clipped;
  EXPECT_GT(clipped, 0);
  EXPECT_NE(bound.losses.back(), free.losses.back());
}

TEST(LogitClip, RefusesAdapters) {
  Context context = testing::poisoned();
  ModelConfig config = families::family("transformer");
  config.lora = 2;
  const Model model(context, config);
  EXPECT_ERROR(LogitClip(context, model, 10.0), ErrorCode::unsupported, "adapters", "train.clip_logits", "0");
}

}  // namespace
}  // namespace fovea
