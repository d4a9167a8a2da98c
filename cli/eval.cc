#include <fmt/format.h>

#include <filesystem>
#include <memory>

#include "cli/run_model.h"
#include "cli/settings.h"
#include "cli/verb.h"
#include "core/nearest.h"

// fovea eval: accuracy of a checkpoint.
namespace fovea::cli {
namespace {

namespace fs = std::filesystem;

struct EvalVerbOptions {
  MachineOptions machine;
  std::string folder, split = "test";
  std::optional<std::string> data;
  std::int64_t examples = 0, batch = 32;
};

// The data the run was trained on, unless --data says otherwise.
DataSettings data_of(const fs::path& checkpoint, const std::optional<std::string>& wanted) {
  DataSettings settings;
  if (wanted) {
    settings.source = *wanted;
    return settings;
  }
  const fs::path run = checkpoint.parent_path();
  return fs::exists(run / kRunFile) ? load_settings(run.string()).data : settings;
}

const std::shared_ptr<const Split>& split_of(const Dataset& data, const std::string& name) {
  if (name == "train") return data.train;
  if (name == "validation") return data.validation;
  if (name == "test") return data.test;
  const std::vector<std::string_view> names{"train", "validation", "test"};
  fail(ErrorCode::usage, fmt::format("unknown split \"{}\"", name), "--split", name_hint(name, names));
}

void run(const EvalVerbOptions& options, const Console& console) {
  split_of({}, options.split);  // a mistyped name is found before the work, not after
  Context context(options.machine.context());
  const fs::path checkpoint = checkpoint_of(options.folder, "fovea eval");
  const Model model = load_model(context, checkpoint.string());
  DataSettings settings = data_of(checkpoint, options.data);
  if (options.split != "train") settings.train = 1;
  const Dataset data = load_data(context, settings, console);
  ModelConfig fitted = model.config();
  fit_to_data(fitted, data);
  const std::shared_ptr<const Split>& split = split_of(data, options.split);
  const EvalReport report = evaluate(context, model, *split, {.examples = options.examples, .batch = options.batch});
  const double majority = split->majority();
  console.print(
      fmt::format("{}  {} of {}: accuracy {:.2f}% (majority class {:.1f}%), loss {:.4f}, {} examples, {:.1f} s",
                  checkpoint.string(), options.split, data.name, 100.0 * report.accuracy, 100.0 * majority, report.loss,
                  report.examples, report.seconds));
  console.document({{"checkpoint", checkpoint.string()},
                    {"data", data.name},
                    {"split", options.split},
                    {"accuracy", report.accuracy},
                    {"loss", report.loss},
                    {"majority_share", majority},
                    {"examples", report.examples},
                    {"seconds", report.seconds}});
}

}  // namespace

void add_eval(Program& program) {
  const auto options = std::make_shared<EvalVerbOptions>();
  const Arguments verb =
      program.add({"eval",
                   "Measures loss and accuracy of a trained model.",
                   {"fovea eval runs/first", "fovea eval runs/first/last --split validation --json"}},
                  [options](const Console& console) { run(*options, console); });
  verb.add_option("folder", options->folder, "folder of a run (its best checkpoint) or of a checkpoint").required();
  verb.add_option("--data", options->data, "listops or a folder of TSV files [as in training]").type_name("SOURCE");
  verb.add_option("--split", options->split, "train, validation or test").type_name("NAME").show_default();
  verb.add_option("--examples", options->examples, "at most so many [all]").type_name("N").check(in_range(1, 1e9));
  verb.add_option("--batch", options->batch, "examples at once").type_name("N").check(in_range(1, 1e6)).show_default();
  add_machine_options(verb, options->machine);
}

}  // namespace fovea::cli
