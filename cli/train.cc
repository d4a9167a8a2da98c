#include <fmt/format.h>
#include <unistd.h>

#include <memory>

#include "cli/interrupt.h"
#include "cli/run_model.h"
#include "cli/run_text.h"
#include "cli/settings.h"
#include "cli/verb.h"

// fovea train: one model on one data set.
namespace fovea::cli {
namespace {

struct TrainOptions {
  RunOptions run;
  std::optional<std::string> attention;
  std::string resume;
};

RunSettings settings_of(const TrainOptions& options) {
  if (options.resume.empty()) {
    RunSettings start;
    start.model = ModelConfig::preset(start.attention);
    RunSettings settings = resolve(start, options.run, options.attention);
    if (settings.train.out.empty()) settings.train.out = default_folder(folder_name(settings.attention));
    require_new_folder(settings.train.out);
    return settings;
  }
  if (options.attention || options.run.out)
    fail(ErrorCode::usage, "--resume continues a run as it is: --attention and --out do not go with it", "--resume",
         "fovea train --resume " + options.resume);
  return resolve(load_settings(options.resume), options.run, {});
}

void run(const TrainOptions& options, const Console& console) {
  RunSettings settings = settings_of(options);
  const Interrupt interrupt;
  const Dataset data = load_data(Context(options.run.machine.context()), settings.data, console);
  fit_to_data(settings.model, data);
  console.note(describe_data(data));
  const std::string& folder = settings.train.out;
  const RunResult result = run_model(settings, data,
                                     {console, options.run.machine, interrupt.requested(), settings.attention,
                                      "fovea train --resume " + folder, settings.attention.size()},
                                     !options.resume.empty());
  console.print(results_table({result}).text(Terminal::of(STDOUT_FILENO)));
  console.print(zones_text(result));
  console.document(write_fields(result));
  console.note(fmt::format("checkpoints and curves: {}", folder));
}

}  // namespace

void add_train(Program& program) {
  const auto options = std::make_shared<TrainOptions>();
  const Arguments verb = program.add({"train",
                                      "Trains a classifier of sequences; Ctrl-C saves and says how to go on.",
                                      {"fovea train --attention transnormer-t2 --minutes 10 --out runs/first",
                                       "fovea train --config run.json --set train.lr=3e-4"}},
                                     [options](const Console& console) { run(*options, console); });
  verb.add_option("--attention", options->attention, "model preset or mechanism (fovea list) [transnormer-t2]")
      .type_name("NAME");
  verb.add_option("--resume", options->resume, "continue the run in this folder").type_name("FOLDER");
  add_run_options(verb, options->run);
}

}  // namespace fovea::cli
