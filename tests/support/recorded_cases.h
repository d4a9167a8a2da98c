#pragma once

#include <functional>
#include <map>
#include <ostream>
#include <string>
#include <vector>

#include "data/batches.h"
#include "support/families.h"
#include "train/stepper.h"

// Models whose steps are recorded, or are not and why; and some steps of one.
namespace fovea::testing {

struct RecordedCase {
  std::string name;
  ModelConfig config;
  std::string refused = {};  // why it is not recorded
  std::int64_t parts = 1;
};
inline void PrintTo(const RecordedCase& c, std::ostream* out) { *out << c.name; }

inline std::vector<RecordedCase> recorded_cases() {
  std::vector<RecordedCase> cases;
  const std::map<std::string, std::string> refused = {{"roberta", "masked"},
                                                      {"informer-forecast", "drawn on the host"}};
  for (const std::string& name : families::names()) {
    const auto why = refused.find(name);
    cases.push_back({name, families::family(name, DType::f32), why == refused.end() ? "" : why->second});
  }
  const auto classifier = [&](const std::string& name, const std::string& why, const auto& change) {
    ModelConfig config = families::family("transformer", DType::f32);
    config.dropout = config.inner_dropout = 0.1;
    change(config);
    cases.push_back({name, config, why});
  };
  const std::string drawn = "drawn on the host";
  for (const char* attention :
       {"transnormer-t2", "reformer", "cosformer", "nystrom", "linformer", "retnet", "gla", "performer"})
    classifier(attention, "", [&](ModelConfig& c) { c.set_attention(attention); });
  for (const char* attention : {"sinkhorn", "lara", "informer"})
    classifier(attention, drawn, [&](ModelConfig& c) { c.set_attention(attention); });
  classifier("skyformer", "waits for a number", [&](ModelConfig& c) { c.set_attention("skyformer:landmarks=2"); });
  classifier("experts", "", [&](ModelConfig& c) { c.experts = 3; });
  for (const DType dtype : {DType::bf16, DType::f16})
    classifier(std::string(name_of(dtype)), "", [&](ModelConfig& c) { c.dtype = dtype; });
  classifier("recomputed", "", [](ModelConfig& c) { c.checkpointing = true; });
  classifier("weights_dropped", "", [](ModelConfig& c) { c.attention_dropout = 0.1; });
  cases.push_back({"gpt_dropped", families::family("gpt", DType::f32)});
  ModelConfig& gpt = cases.back().config;
  gpt.dropout = gpt.inner_dropout = gpt.attention_dropout = 0.1;
  classifier("parts", "", [](ModelConfig&) {});
  cases.back().parts = 2;
  return cases;
}

struct RecordedRun {
  std::vector<double> numbers;  // losses, accuracies, norms
  std::vector<std::vector<double>> weights;
  RecordedSteps::Counts counts;
  std::string news;
};

// Steps on batches of one shape; `after` is called behind each.
inline RecordedRun run_steps(
    const RecordedCase& of, Context& context, std::int64_t steps, RecordedSteps::When when,
    const std::function<void()>& after = [] {}) {
  TrainConfig config;
  config.accumulation = of.parts;
  config.clip_norm = 0.5;
  config.average = Averaging::exponential;
  config.adamw.weight_decay = 0.01;
  const Context host({.threads = 2, .seed = context.seed()});
  Model model(context, of.config);
  Stepper stepper(context, model, config, when);
  RecordedRun run;
  for (std::int64_t step = 1; step <= steps; ++step) {
    std::vector<Batch> batches;
    for (std::int64_t part = 0; part < of.parts; ++part) {
      const auto seed = static_cast<std::uint64_t>(of.parts * (step % 5) + part);
      batches.push_back(to_device(context, families::random_batch(host, of.config, seed)));
    }
    StepReport report;
    report.step = step;
    stepper.step(batches, 1e-3 / static_cast<double>(1 + step % 3), report);
    run.numbers.insert(run.numbers.end(), {report.loss, report.accuracy, report.gradient_norm});
    if (const std::string news = stepper.recorded().news(); !news.empty()) run.news = news;
    after();
  }
  run.counts = stepper.recorded().counts();
  for (const Parameter& p : model.parameters()) run.weights.push_back(p.var.value().to_vector<double>());
  for (const Tensor& average : stepper.average()->averages()) run.weights.push_back(average.to_vector<double>());
  return run;
}

}  // namespace fovea::testing
