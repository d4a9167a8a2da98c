#include <fmt/format.h>
#include <unistd.h>

#include <memory>

#include "cli/kit/interrupt.h"
#include "cli/kit/rank_options.h"
#include "cli/kit/run_options.h"
#include "cli/kit/run_progress.h"
#include "cli/kit/standard_input.h"
#include "cli/kit/verb.h"
#include "experiment/health_text.h"
#include "experiment/profile_text.h"
#include "experiment/run_folder.h"
#include "experiment/run_model.h"
#include "experiment/run_text.h"
#include "experiment/train_report.h"
#include "io/lock.h"

// fovea train: one model on one data set.
namespace fovea::cli {
namespace {

struct TrainOptions {
  RunOptions run;
  RankOptions ranks;
  std::string resume, freeze;
  bool print_config = false;
};

// The folder of the run that --resume names, itself or one of its checkpoints.
Path run_of(const Path& resume) {
  const Path folder = (resume / "").lexically_normal().parent_path(), above = folder.parent_path();
  const bool checkpoint = !is_there(folder / kRunFile) && is_there(folder / "state.json");
  return checkpoint && is_there(above / kRunFile) ? above : folder;
}

// A run that nobody named data for would be an hour of something that nobody wants.
void require_data(const RunChoices& o) {
  if (!o.names_data())
    fail(ErrorCode::usage, "what is it to be trained on?", "fovea train",
         "fovea train --data FILE, or --data listops; see fovea help train and fovea list data");
}

// Folders are the first rank's to look at: others come later, when it may have begun.
RunSettings settings_of(const TrainOptions& options, const dist::Mesh& mesh, const Console& console) {
  if (options.resume.empty()) {
    RunChoices choices = options.run.choices();
    if (!options.freeze.empty()) choices.freeze = split_names(options.freeze, "--freeze");
    const bool sent = choices.data == "-";
    if (sent && mesh.all.size() > 1)
      fail(ErrorCode::unsupported, "standard input comes to one rank only", "--data -", "--data FILE");
    if (sent) choices.data = given_file("-");
    RunSettings settings = new_run({}, choices);
    if (options.print_config) {
      if (sent) settings.data.source = "-";
      return settings;
    }
    require_data(options.run.typed);
    if (settings.train.out.empty())
      settings.train.out = first_ranks(mesh, default_folder(folder_name(settings.name())));
    if (mesh.leads()) require_new_folder(settings.train.out);
    if (sent) settings.data.source = keep_in(settings.train.out, *choices.data);
    divide_batch(mesh, console, settings);
    return settings;
  }
  const RunChoices choices = options.run.choices();
  if (choices.model || choices.attention || choices.from || choices.lora || !options.freeze.empty() || choices.out)
    fail(ErrorCode::usage, "--resume continues a run as it is: no other model, start or --out goes with it", "--resume",
         "fovea train --resume " + options.resume);
  const std::string run = run_of(options.resume).string();
  if (mesh.leads()) FolderLock::require_free(run);
  return changed_run(load_settings(run), choices);
}

// What run_model is to continue; empty: nothing.
std::string resumed_from(const TrainOptions& options, const std::string& folder) {
  if (options.resume.empty()) return {};
  return is_there(Path(options.resume) / kRunFile) ? folder : options.resume;
}

// The result on standard output, where it is kept and what may follow on standard error.
void show(const TrainReport& report, const Console& console) {
  const RunResult& result = report.result;
  const std::string& folder = report.settings.train.out;
  console.print(result_table(result).text(Terminal::of(STDOUT_FILENO)));
  if (report.metrics)
    console.print(
        fmt::format("F1 {:.3f}, Matthews' correlation {:.3f}", report.metrics->f1, report.metrics->correlation));
  console.sentence(zones_text(result));
  if (result.profile) console.print(profile_text(*result.profile, Terminal::of(STDOUT_FILENO)));
  if (result.health) console.print(health_text(*result.health, Terminal::of(STDOUT_FILENO)));
  console.document(write_fields(result));
  console.note(fmt::format("checkpoints and curves: {}\nreport: {}/report.html\nnext: {}", folder, folder,
                           next_command(report.settings)));
}

void run(const TrainOptions& options, const Console& console) {
  const dist::Mesh mesh = options.ranks.mesh_of(console);
  RunSettings settings = settings_of(options, mesh, console);
  if (options.print_config) {
    console.print(json_text(write_fields(settings)));
    return console.document(write_fields(settings));
  }
  const Interrupt interrupt;
  const std::string& folder = settings.train.out;
  const std::string name = settings.name();
  RunProgress progress(console, name.size(), options.run.json_lines);
  const ContextOptions machine = options.run.machine.context(console);
  const Dataset data = load_data(Context(machine), settings, Path(folder) / "last", progress);
  fit_to_data(settings, data);
  console.note(describe_data(data));
  const RunEnvironment environment{.machine = machine,
                                   .observer = progress,
                                   .stop = &interrupt.requested(),
                                   .name = name,
                                   .resume_command = "fovea train --resume " + folder,
                                   .watch = options.run.watch(),
                                   .warn = [&progress](const std::string& text) { progress.set_warning(text); },
                                   .mesh = mesh};
  const Path result = Path(folder) / kResultFile;
  const std::string before = is_there(result) ? read_file(result) : std::string();
  TrainReport report{console.command, settings, run_model(settings, data, environment, resumed_from(options, folder))};
  const bool anew = !is_there(Path(folder) / "report.html") || read_file(result) != before;  // else it was finished
  if (mesh.leads() && anew) write_train_report(report, data, environment);
  show(report, console);
}

}  // namespace

void add_train(Program& program) {
  const auto options = std::make_shared<TrainOptions>();
  const Arguments verb = program.add({"train",
                                      "Trains a model for any task; Ctrl-C saves and says how to go on.",
                                      {"fovea train --model gpt --attention transnormer-t2 --data in.txt --minutes 10",
                                       "fovea train --config run.json --set train.lr=3e-4"}},
                                     [options](const Console& console) { run(*options, console); });
  RunChoices& o = options->run.typed;
  verb.add_option("--model", o.model, "gpt, llama, roberta, seq2seq, vit, ... [by the data]").type_name("NAME");
  verb.add_option("--attention", o.attention, "mechanism of its layers (fovea list), or a preset").type_name("NAME");
  verb.add_option("--from", o.from, "begin with the weights of a run or an import").type_name("FOLDER");
  verb.add_option("--lora", o.lora, "train adapters of this rank beside these weights")
      .type_name("N")
      .check(in_range(1, 4096));
  verb.add_option("--freeze", options->freeze, "parts of them that stay: embedding,layers.0").type_name("A,B").common();
  verb.add_option("--resume", options->resume, "continue this run, or from a checkpoint in it").type_name("FOLDER");
  add_run_options(verb, options->run);
  verb.add_flag("--print-config", options->print_config, "print the settings for --config, and train nothing").common();
  add_training_rank_options(verb, options->ranks);
  verb.add_option("--restarts", options->ranks.restarts, "with --ranks: go on so often after a rank was lost")
      .type_name("N")
      .check(in_range(0, 1e6))
      .common();
  program.share_last();
}

}  // namespace fovea::cli
