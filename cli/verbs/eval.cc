#include <fmt/format.h>

#include <array>
#include <cmath>
#include <filesystem>
#include <memory>

#include "cli/kit/options.h"
#include "cli/kit/progress.h"
#include "cli/kit/rank_options.h"
#include "cli/kit/run_progress.h"
#include "cli/kit/standard_input.h"
#include "cli/kit/verb.h"
#include "core/nearest.h"
#include "data/kinds.h"
#include "experiment/predictions.h"
#include "experiment/run_folder.h"
#include "experiment/scores.h"
#include "models/mesh.h"
#include "train/evaluation.h"

// fovea eval: how good a checkpoint is.
namespace fovea::cli {
namespace {

namespace fs = std::filesystem;

struct EvalVerbOptions {
  MachineOptions machine;
  RankOptions ranks;
  std::string folder, split = "test";
  std::optional<std::string> data;
  std::vector<std::string> set;
  std::int64_t examples = 0, batch = 32;
};

// The settings of the run, with the model that the checkpoint holds and the data that --data names.
RunSettings settings_of(const fs::path& checkpoint, const Model& model, const EvalVerbOptions& options) {
  RunSettings settings;
  const fs::path run = checkpoint.parent_path();
  if (is_there(run / kRunFile)) settings = load_settings(run.string());
  settings.model = model.config();
  if (options.data) {
    settings.data.source = given_file(*options.data);
    settings.data.kind.clear();  // that of the training data
  }
  set_fields(settings, options.set);
  const bool generated = is_generated(settings.data.source);
  if (generated && options.split != "train") settings.data.train = 1;
  return settings;
}

const std::shared_ptr<const Split>& split_of(const Dataset& data, const std::string& name) {
  constexpr std::array<std::string_view, 3> kNames{"train", "validation", "test"};
  const std::array splits{&data.train, &data.validation, &data.test};
  return *splits[place_of_name(name, kNames, "split", "--split")];
}

// Of whole inputs with classes; larger parts are left at their accuracy, which takes half the time.
std::optional<ClassMetrics> metrics_of(Context& context, const Model& model, const Split& split,
                                       const EvalVerbOptions& options) {
  constexpr std::int64_t kMost = 20000;
  if (!Scores{.task = model.config().task}.classes() || split.size() > kMost) return {};
  const std::vector<Prediction> predictions =
      predict(context, model, split, {.examples = options.examples, .batch = options.batch});
  return class_metrics(predictions, model.config().classes);
}

// Of numbers.
void add_correlations(Context& context, const Model& model, const Split& split, const EvalVerbOptions& options,
                      Scores& scores) {
  if (scores.task != Task::regress) return;
  const Correlations found =
      correlations(predict_numbers(context, model, split, {.examples = options.examples, .batch = options.batch}));
  scores.pearson = found.pearson;
  scores.spearman = found.spearman;
}

void run(const EvalVerbOptions& options, const Console& console) {
  split_of({}, options.split);  // a mistyped name is found before the work, not after
  Context context(options.machine.context(console));
  const fs::path checkpoint = checkpoint_of(options.folder, "fovea eval");
  Model model = load_model(context, checkpoint.string());
  const dist::Mesh mesh = options.ranks.mesh_of(console);
  set_mesh(model, mesh);
  RunSettings settings = settings_of(checkpoint, model, options);
  RunProgress progress(console);
  const Dataset data = load_data(context, settings, checkpoint, progress);
  fit_to_data(settings, data);
  const std::shared_ptr<const Split>& split = split_of(data, options.split);
  if (empty(split))
    fail(ErrorCode::bad_input, fmt::format("{} has no examples for {}", data.name, options.split), "--split");
  const EvalReport report = evaluate(
      context, model, *split,
      {.examples = options.examples, .batch = options.batch, .progress = eval_progress(console, options.split)}, mesh);
  if (!std::isfinite(report.loss))
    fail(ErrorCode::bad_input, fmt::format("the loss on {} is not a finite number", options.split), checkpoint.string(),
         "a checkpoint from before the training left the finite numbers");
  Scores scores = scores_of(data.task, report, *split);
  add_correlations(context, model, *split, options, scores);
  console.sentence(fmt::format("{}  {} of {}: {}, {} examples, {:.1f} s", checkpoint.string(), options.split, data.name,
                               scores_text(scores), report.examples, report.seconds));
  const std::optional<ClassMetrics> metrics = metrics_of(context, model, *split, options);
  if (metrics) console.print(fmt::format("F1 {:.3f}, Matthews' correlation {:.3f}", metrics->f1, metrics->correlation));
  Json document{{"checkpoint", checkpoint.string()}, {"data", data.name}, {"split", options.split}};
  document.update(scores_json(scores));
  if (metrics) document.update({{"f1", metrics->f1}, {"matthews", metrics->correlation}});
  document.update({{"examples", report.examples}, {"seconds", report.seconds}});
  console.document(document);
}

}  // namespace

void add_eval(Program& program) {
  const auto options = std::make_shared<EvalVerbOptions>();
  const Arguments verb =
      program.add({"eval",
                   "Measures a trained model by accuracy, loss, perplexity or errors.",
                   {"fovea eval runs/first", "fovea eval runs/first/last --split validation --json"}},
                  [options](const Console& console) { run(*options, console); });
  verb.add_option("folder", options->folder, "folder of a run (its best checkpoint) or of a checkpoint").required();
  verb.add_option("--data", options->data, "listops, a folder, a file or - [as in training]").type_name("SOURCE");
  verb.add_option("--split", options->split, "train, validation or test").type_name("NAME").show_default();
  verb.add_option("--examples", options->examples, "at most so many [all]").type_name("N").check(in_range(1, 1e9));
  verb.add_option("--batch", options->batch, "examples at once").type_name("N").check(in_range(1, 1e6)).show_default();
  verb.add_option("--set", options->set, "change one setting: data.length=512 (repeatable)")
      .type_name("NAME=VALUE")
      .repeatable();
  add_machine_options(verb, options->machine);
  add_rank_options(verb, options->ranks);
  program.share_last();
}

}  // namespace fovea::cli
