#pragma once

#include <atomic>
#include <string>
#include <vector>

#include "fovea/train.h"
#include "io/file.h"
#include "support/tiny.h"

namespace fovea::tiny {

inline TrainConfig quick(const std::string& out = {}) {
  TrainConfig config;
  config.steps = 10;
  config.batch = 6;
  config.schedule = {ScheduleKind::one_cycle, 2e-3, 3};
  config.eval_every = 5;
  config.eval_examples = 8;
  config.checkpoint_every = 0;
  config.log_every = 2;
  config.seed = 9;
  config.out = out;
  return config;
}

// A run with all it needs; remembers what it was told.
class TinyRun : public TrainObserver {
 public:
  explicit TinyRun(TrainConfig config, ModelConfig model_config = tiny::config("transnormer-t2"))
      : context({.threads = 2, .seed = config.seed, .memory = {.poison = true}}),
        data(tiny::dataset(1, 40, 10)),
        model(context, std::move(model_config)),
        trainer(context, model, data, std::move(config)) {
    trainer.add(*this);
  }

  void on_step(const StepReport& report) override {
    losses.push_back(report.loss);
    steps.push_back(report);
    if (report.step == stop_after) stop = true;
  }
  void on_eval_progress(std::int64_t done, std::int64_t all) override { validated.emplace_back(done, all); }
  void on_eval(const EvalReport& report) override { evaluations.push_back(report); }
  void on_checkpoint(const std::string& folder) override { checkpoints.push_back(Path(folder).filename()); }

  TrainResult go() { return trainer.run(&stop); }
  std::vector<std::vector<float>> parameters() const {
    std::vector<std::vector<float>> values;
    for (const Parameter& p : model.parameters()) values.push_back(p.var.value().to_vector<float>());
    return values;
  }

  Context context;
  Dataset data;
  Model model;
  Trainer trainer;
  std::vector<double> losses;
  std::vector<StepReport> steps;
  std::vector<EvalReport> evaluations;
  std::vector<std::pair<std::int64_t, std::int64_t>> validated;  // examples done, of all
  std::vector<std::string> checkpoints;
  std::int64_t stop_after = -1;
  std::atomic<bool> stop{false};
};

}  // namespace fovea::tiny
