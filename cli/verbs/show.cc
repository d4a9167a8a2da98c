#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <memory>

#include "cli/kit/settings_text.h"
#include "cli/kit/verb.h"
#include "core/nearest.h"
#include "experiment/run_folder.h"
#include "experiment/settings.h"
#include "fovea/mechanism.h"
#include "models/files.h"
#include "models/presets.h"
#include "report/terminal.h"

// fovea show: the settings of a model or a run, and what each means.
namespace fovea::cli {
namespace {

struct ShowOptions {
  std::string name, find;
  RunChoices choices;
};

// Of a run; or of a model, with those of the run that it is a checkpoint of, or what would usually train it.
RunSettings settings_in(const std::string& folder) {
  if (is_there(Path(folder) / kRunFile)) return load_settings(folder);
  const Path checkpoint = checkpoint_of(folder, "fovea show"), run = (Path(folder) / "").parent_path().parent_path();
  RunSettings settings;
  settings.data.source.clear();
  const bool of_run = is_there(run / kRunFile);
  if (of_run) settings = load_settings(run.string());
  settings.model = read_model_config(checkpoint / kConfigFile);
  if (!of_run) settings.train = TrainConfig::usual(settings.model);
  return settings;
}

// What is in a folder has its attention; single settings may be changed.
RunSettings changed_settings(const ShowOptions& options) {
  if (options.choices.attention || !options.choices.config.empty())
    fail(ErrorCode::usage, "the folder decides the attention and the rest", "fovea show", "fovea show " + options.name);
  RunSettings settings = settings_in(options.name);
  set_fields(settings, options.choices.set);
  return settings;
}

RunSettings chosen(const ShowOptions& options) {
  RunChoices choices = options.choices;
  if (options.name.empty() || is_preset(options.name)) {
    if (!options.name.empty()) choices.model = options.name;
    return new_run({}, choices);
  }
  if (is_folder(options.name)) return changed_settings(options);
  choices.name_attention(options.name, "fovea show");
  try {
    return new_run({}, choices);
  } catch (const Error& error) {
    if (error.where() != "attention") throw;
    throw Error(error.code(), fmt::format("no model, mechanism or folder \"{}\"", options.name), "fovea show",
                error.hint());
  }
}

// "gpt: a small language model; 4 layers of width 256"
std::string title(const ShowOptions& options, const RunSettings& settings) {
  const ModelConfig& model = settings.model;
  const std::string summary(preset_summary(options.name));
  return fmt::format("{}{}; {} layers, width {}, {} heads\n", options.name.empty() ? settings.name() : options.name,
                     summary.empty() ? "" : ": " + summary, model.layers.size(), model.width, model.heads);
}

void run(const ShowOptions& options, const Console& console) {
  const RunSettings settings = chosen(options);
  // Without a name: everything there is, sections that this model does without as well.
  std::vector<FieldHelp> lines = options.name.empty() ? describe_fields(settings) : list_fields(settings);
  if (!options.find.empty()) {
    lines = find_settings(lines, options.find);
    if (lines.empty())
      fail(ErrorCode::usage, fmt::format("no setting is about \"{}\"", options.find), "--find", "fovea show");
  }
  console.document(options.name.empty() || !options.find.empty() ? settings_json(lines) : write_fields(settings));
  const std::string table = settings_text(lines, static_cast<std::size_t>(Terminal::of(STDOUT_FILENO).width));
  if (!options.find.empty()) return console.print(table);
  if (!options.name.empty()) return console.print(title(options, settings) + "\n" + table);
  console.print(
      fmt::format("Every setting, with its value for {}; another model: fovea show gpt\n\n{}", settings.name(), table));
}

}  // namespace

void add_show(Program& program) {
  const auto options = std::make_shared<ShowOptions>();
  const Arguments verb = program.add({"show",
                                      "Shows the settings of a model or a run, with their meanings. --json prints "
                                      "what --config takes.",
                                      {"fovea show gpt --find norm", "fovea show runs/first --json > again.json"}},
                                     [options](const Console& console) { run(*options, console); });
  verb.add_option("name", options->name, "model, mechanism, or folder of a run [every setting there is]");
  verb.add_option("--find", options->find, "only settings whose name or meaning has this word").type_name("WORD");
  verb.add_option("--attention", options->choices.attention, "mechanism of its layers").type_name("NAME");
  verb.add_option("--config", options->choices.config, "JSON file; settings as run.json has them").type_name("FILE");
  verb.add_option("--set", options->choices.set, "change one setting: model.width=128 (repeatable)")
      .type_name("NAME=VALUE")
      .repeatable();
}

}  // namespace fovea::cli
