#include <fmt/format.h>

#include <memory>

#include "cli/kit/verb.h"
#include "cli/verbs/completion_scripts.h"
#include "core/nearest.h"
#include "experiment/settings.h"
#include "fovea/mechanism.h"
#include "fovea/pretrained.h"
#include "io/fields.h"

// fovea completion: a script for the shell, written from the tree of verbs, so that it cannot fall behind it.
namespace fovea::cli {
namespace {

void collect(const Arguments& verb, const std::string& path, std::vector<CompletionPlace>& places) {
  CompletionPlace place{path, {}, {}};
  for (const Arguments& below : verb.verbs()) place.verbs.push_back({below.text().name, below.text().summary});
  for (const Option& option : verb.options())
    for (const std::string& name : option.long_names()) place.options.push_back({name, option.help()});
  places.push_back(place);
  for (const Arguments& below : verb.verbs())
    collect(below, path.empty() ? below.text().name : path + " " + below.text().name, places);
}

std::vector<CompletionValues> known_values(const Arguments& program) {
  std::vector<std::string> mechanisms, presets, models, features, verbs;
  for (std::string_view name : mechanism_names()) mechanisms.emplace_back(name);
  for (std::string_view name : ModelConfig::preset_names()) presets.emplace_back(name);
  models = presets;
  models.insert(models.end(), mechanisms.begin(), mechanisms.end());
  for (int i = 0; i < kFeatures; ++i) features.emplace_back(name_of(static_cast<Feature>(i)));
  for (const Arguments& verb : program.verbs()) verbs.push_back(verb.text().name);
  std::vector<std::string> listed = mechanisms;
  listed.insert(listed.end(), {"models", "data"});
  const auto words = [](const std::vector<std::string_view>& names) {
    return std::vector<std::string>(names.begin(), names.end());
  };
  return {{"--model", presets},
          {"--attention", models},
          {"--with", features},
          {"--device", {"auto", "cpu", "cuda"}},
          {"--dtype", {"f32", "bf16", "f16", "f64"}},
          {"--format", words(model_formats())},
          {"--pooling", words(pooling_names())},
          {"--split", {"train", "validation", "test"}},
          {"list", listed},
          {"show", models},
          {"help", verbs},
          {"completion", {"bash", "zsh", "fish"}}};
}

// Every setting of a run, those that hold mechanisms with their names.
std::vector<CompletionSetting> known_settings() {
  std::vector<std::string> mechanisms, kinds;
  for (std::string_view name : mechanism_names()) mechanisms.emplace_back(name);
  for (const DataKind& kind : data_kinds()) kinds.emplace_back(kind.name);
  std::vector<CompletionSetting> settings;
  for (FieldHelp& line : describe_fields(RunSettings{})) {
    const std::string name = line.path.substr(0, line.path.find("[i]"));
    if (name.ends_with("layers") || name.ends_with("cross")) line.choices = mechanisms;
    if (name == "data.kind") line.choices = kinds;
    if (name == "data.tokenizer") line.choices = {"bytes", "characters", "words", "bpe"};
    settings.push_back({name, line.help, std::move(line.choices)});
  }
  return settings;
}

void run(const Arguments& program, const std::string& shell, const Console& console) {
  Completion completion{{}, known_values(program), known_settings()};
  collect(program, "", completion.places);
  if (shell == "bash") return console.print(bash_script(completion));
  if (shell == "zsh") return console.print(zsh_script(completion));
  if (shell == "fish") return console.print(fish_script(completion));
  const std::vector<std::string_view> shells{"bash", "zsh", "fish"};
  fail(ErrorCode::usage, fmt::format("no completion for the shell \"{}\"", shell), "fovea completion",
       name_hint(shell, shells));
}

}  // namespace

void add_completion(Program& program) {
  const auto shell = std::make_shared<std::string>();
  const Arguments verb = program.add(
      {"completion",
       "Prints a completion script for bash, zsh or fish.",
       {"source <(fovea completion bash)", "fovea completion fish > ~/.config/fish/completions/fovea.fish"}},
      [shell, all = program.arguments()](const Console& console) { run(all, *shell, console); });
  verb.add_option("shell", *shell, "bash, zsh or fish").required();
}

}  // namespace fovea::cli
