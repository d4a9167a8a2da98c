#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "dist/mesh.h"
#include "dist/threads.h"
#include "models/mesh.h"
#include "support/families.h"
#include "support/tiny_run.h"
#include "train/stepper.h"

// Training by several ranks, which are threads here.
namespace fovea::rank_jobs {

using tiny::quick;
using tiny::TinyRun;

inline TrainConfig in_parts(const std::string& out = {}) {
  TrainConfig config = quick(out);
  config.batch = 8;
  config.accumulation = 4;
  config.clip_norm = 1.0;
  return config;
}

// What each rank saw.
struct Seen {
  std::vector<double> losses, validations, norms;
  std::vector<std::int64_t> tokens;
  std::vector<std::vector<float>> parameters;
  std::vector<std::string> checkpoints;
  StopReason reason = StopReason::steps;
};

struct Job {
  TrainConfig config = in_parts();
  std::string model = "transnormer-t2", resume = {};
  std::int64_t stop_after = -1;  // on the last rank
  dist::Divide divide = dist::Divide::nothing;
  std::int64_t compare_every = 0;
  std::string mesh = {};
  std::int64_t heads = 0, layers = 0, chunks = 1;  // heads and layers 0: those of the preset
  std::function<void(TinyRun&, int rank)> before = {};
};

inline ModelConfig model_of(const Job& job) {
  ModelConfig config = tiny::config(job.model);
  if (job.heads > 0) config.heads = job.heads;
  if (job.layers > 0) config.layers.resize(static_cast<std::size_t>(job.layers), config.layers.back());
  return config;
}

inline std::vector<Seen> train(int ranks, const Job& job) {
  std::vector<Seen> all(static_cast<std::size_t>(ranks));
  dist::run_threads(ranks, [&](const dist::Group& group) {
    TrainConfig config = job.config;
    TinyRun run(config, model_of(job));
    if (group.rank() == ranks - 1) run.stop_after = job.stop_after;
    if (job.before) job.before(run, group.rank());
    dist::MeshShape shape = dist::MeshShape::parse(job.mesh, ranks);
    shape.divide = job.divide;
    shape.compare_every = job.compare_every;
    shape.chunks = job.chunks;
    run.trainer.set_mesh(dist::Mesh(group, shape));
    if (!job.resume.empty()) run.trainer.resume(job.resume);
    Seen& seen = all[static_cast<std::size_t>(group.rank())];
    seen.reason = run.go().reason;
    seen.losses = run.losses;
    for (const StepReport& step : run.steps) {
      seen.norms.push_back(step.gradient_norm);
      seen.tokens.push_back(step.tokens);
    }
    for (const EvalReport& report : run.evaluations) seen.validations.push_back(report.loss);
    seen.parameters = run.parameters();
    seen.checkpoints = run.checkpoints;
  });
  return all;
}

// Losses of ten steps on random examples.
inline std::vector<double> ten_steps(Context& context, Model& model, const TrainConfig& config,
                                     const dist::Mesh& mesh) {
  set_mesh(model, mesh);
  Stepper stepper(context, model, config, RecordedSteps::When::never);
  stepper.set_mesh(mesh);
  std::vector<double> losses;
  for (std::int64_t step = 1; step <= 10; ++step) {
    const Batch batch = families::random_batch(context, model.config(), static_cast<std::uint64_t>(step));
    StepReport report;
    report.step = step;
    stepper.step(std::span(&batch, 1), 1e-3, report);
    losses.push_back(report.loss);
  }
  return losses;
}

inline void expect_near(const std::vector<double>& a, const std::vector<double>& b, double tolerance) {
  ASSERT_EQ(a.size(), b.size());
  for (std::size_t i = 0; i < a.size(); ++i) EXPECT_NEAR(a[i], b[i], tolerance * std::fabs(b[i])) << i;
}

}  // namespace fovea::rank_jobs
