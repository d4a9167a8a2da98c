#include "inspect/gradient_health.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "io/fields.h"
#include "support/expect_error.h"
#include "support/tiny_run.h"

namespace fovea {
namespace {

using tiny::quick;
using tiny::TinyRun;

// A run that is watched, and what was found after each step.
class Watched : public TrainObserver {
 public:
  explicit Watched(TrainConfig config = quick(), ModelConfig model = tiny::config("transnormer-t2"),
                   HealthLimits limits = {})
      : run_(std::move(config), std::move(model)),
        health_(run_.context, run_.model,
                {.every = 3, .limits = limits, .warn = [this](const std::string& text) { warnings.push_back(text); }}) {
    run_.trainer.add(health_);
    run_.trainer.add(*this);
    run_.trainer.set_tape_observer(health_);
    run_.go();
    report = health_.report();
  }

  void on_step(const StepReport& step) override {
    double squares = 0.0;
    for (const double norm : health_.norms()) squares += norm * norm;
    norms.emplace_back(std::sqrt(squares), step.gradient_norm);
    looked.push_back(!health_.looked_at().empty());
  }

  const std::vector<double>& losses() const { return run_.losses; }

  std::vector<std::pair<double, double>> norms;  // of all parts together; as the step reports it
  std::vector<bool> looked;
  std::vector<std::string> warnings;
  HealthReport report;

 private:
  TinyRun run_;
  GradientHealth health_;
};

TEST(GradientHealth, AddsUpToTheNormOfTheStep) {
  TrainConfig parts = quick();
  parts.accumulation = 2;
  for (const TrainConfig& config : {quick(), parts}) {
    const Watched run(config);
    ASSERT_EQ(run.norms.size(), 10u);
    double mean = 0.0, squares = 0.0;
    for (const auto& [sum, reported] : run.norms) {
      EXPECT_NEAR(sum, reported, 1e-6 * reported);
      mean += reported / 10.0;
    }
    for (const auto& [sum, reported] : run.norms) squares += (reported - mean) * (reported - mean) / 10.0;
    EXPECT_NEAR(run.report.all.relative_deviation, std::sqrt(squares) / mean, 1e-9);
    EXPECT_EQ(run.report.steps, 10);
  }
}

TEST(GradientHealth, NamesPartsAndAttentionLayers) {
  const Watched run;
  std::set<std::string> parts;
  for (const PartHealth& part : run.report.parts) {
    EXPECT_TRUE(parts.insert(part.place).second) << part.place << " twice";
    EXPECT_GT(part.mean, 0.0) << part.place;
  }
  for (const char* place : {"model.embedding", "model.layers[0]", "model.layers[1]", "model.classifier"})
    EXPECT_TRUE(parts.contains(place)) << place;
  ASSERT_EQ(run.report.attention.size(), 2u);
  EXPECT_EQ(run.report.attention[0].place, "model.layers[0].attention");
  EXPECT_EQ(run.report.attention[0].theory, "softmax");  // of diag
  EXPECT_EQ(run.report.attention[1].theory, "norm");
  for (const AttentionHealth& layer : run.report.attention) {
    ASSERT_TRUE(layer.worst.gradient && layer.worst.gradient_bound) << layer.place;
    EXPECT_GT(*layer.worst.gradient, 0.0);
    EXPECT_LE(*layer.worst.gradient, *layer.worst.gradient_bound);
  }
  EXPECT_LE(*run.report.attention[0].worst.derivative, 0.25);
  EXPECT_EQ(run.looked, (std::vector<bool>{1, 0, 1, 0, 0, 1, 0, 0, 1, 0}));  // the first, and every third
  EXPECT_EQ(run.report.looked, 4);
}

TEST(GradientHealth, ChangesNothing) {
  TinyRun plain(quick());
  plain.go();
  EXPECT_EQ(Watched().losses(), plain.losses);
}

// In segments that run again the gradient of an output is there in the second run only.
TEST(GradientHealth, SeesTheSameWhereLayersAreRecomputed) {
  ModelConfig model = tiny::config("transformer");
  const Watched plain(quick(), model);
  model.checkpointing = true;
  const Watched again(quick(), model);
  ASSERT_EQ(again.report.attention.size(), plain.report.attention.size());
  for (std::size_t i = 0; i < plain.report.attention.size(); ++i) {
    EXPECT_EQ(again.report.attention[i].worst.gradient, plain.report.attention[i].worst.gradient);
    EXPECT_EQ(again.report.attention[i].worst.max_logit, plain.report.attention[i].worst.max_logit);
  }
  EXPECT_EQ(again.norms, plain.norms);
}

TEST(GradientHealth, WarnsByNameAndOnce) {
  const Watched calm;
  EXPECT_TRUE(calm.report.warnings.empty());
  for (const std::string& text : calm.warnings) EXPECT_EQ(text, "");
  const Watched strict(quick(), tiny::config("transformer"), {.logit = 1e-3});
  ASSERT_EQ(strict.report.warnings.size(), 2u);  // of each layer
  EXPECT_TRUE(strict.report.warnings[0].starts_with("step 1: model.layers[0].attention: logits up to "))
      << strict.report.warnings[0];
  ASSERT_EQ(strict.warnings.size(), 10u);
  for (const std::string& text : strict.warnings) EXPECT_NE(text, "");  // stands until the next look
  const Watched jumpy(quick(), tiny::config("transformer"), {.spike = 1e-3, .settled = 2});
  EXPECT_EQ(jumpy.warnings[1], "");
  EXPECT_NE(jumpy.warnings[2].find(" times their mean"), std::string::npos) << jumpy.warnings[2];
}

TEST(GradientHealth, ReadsStepsInHalfPrecision) {
  ModelConfig model = tiny::config("transformer");
  model.dtype = DType::f16;
  const Watched run(quick(), model);
  for (const auto& [sum, reported] : run.norms) EXPECT_NEAR(sum, reported, 1e-3 * reported + 1e-9);
  ASSERT_FALSE(run.report.attention.empty());
  EXPECT_LE(*run.report.attention[0].worst.gradient, *run.report.attention[0].worst.gradient_bound);
}

TEST(GradientHealth, GoesThroughJson) {
  HealthReport report = Watched().report;
  report.warnings.push_back("step 3: x");
  report.attention[0].worst.derivative_bound = INFINITY;
  HealthReport back;
  read_fields(back, write_fields(report), "health");
  ASSERT_EQ(back.parts.size(), report.parts.size());
  EXPECT_EQ(back.parts[1].place, report.parts[1].place);
  EXPECT_EQ(back.attention[1].worst.gradient, report.attention[1].worst.gradient);
  EXPECT_EQ(back.attention[0].worst.derivative_bound, INFINITY);
  EXPECT_EQ(back.warnings, report.warnings);
}

}  // namespace
}  // namespace fovea
