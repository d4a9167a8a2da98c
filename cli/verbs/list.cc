#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "cli/kit/help.h"
#include "cli/kit/options.h"
#include "cli/kit/verb.h"
#include "cli/verbs/list_docs.h"
#include "cli/verbs/list_text.h"
#include "core/nearest.h"
#include "fovea/data.h"
#include "fovea/model.h"
#include "io/json.h"
#include "mechanisms/kind.h"
#include "mechanisms/score.h"
#include "models/presets.h"

// fovea list: the registry of mechanisms, for people and for scripts.
namespace fovea::cli {
namespace {

struct ListOptions {
  std::string name;  // one mechanism in detail
  std::string with;  // features a mechanism must have
  std::string docs;  // folder of the pages to bring up to date
};

Feature parse_feature(const std::string& text) {
  std::vector<std::string_view> names;
  for (int i = 0; i < kFeatures; ++i) names.push_back(name_of(static_cast<Feature>(i)));
  return static_cast<Feature>(place_of_name(text, names, "feature", "--with"));
}

std::vector<const MechanismKind*> chosen_kinds(const std::string& with) {
  std::vector<Feature> wanted;
  if (!with.empty())
    for (const std::string& name : split_names(with, "--with")) wanted.push_back(parse_feature(name));
  std::vector<const MechanismKind*> kinds;
  for (const MechanismKind* kind : mechanism_kinds()) {
    const auto has = [&](Feature feature) { return kind->features.has(feature); };
    if (std::all_of(wanted.begin(), wanted.end(), has)) kinds.push_back(kind);
  }
  return kinds;
}

Json parameter_json(const ParameterSpec& spec) {
  Json json{{"name", spec.name}, {"help", spec.help}};
  std::visit([&](const auto& v) { json["default"] = v; }, spec.fallback);
  if (!spec.choices.empty())
    json["choices"] = spec.choices;
  else if (!std::holds_alternative<bool>(spec.fallback))
    json["range"] = {spec.low, spec.high};
  return json;
}

Json kind_json(const MechanismKind& kind) {
  Json features = Json::object(), parameters = Json::array();
  for (int i = 0; i < kFeatures; ++i) {
    const auto feature = static_cast<Feature>(i);
    features[std::string(name_of(feature))] = kind.features.has(feature);
  }
  for (const ParameterSpec& spec : kind.parameters) parameters.push_back(parameter_json(spec));
  return {{"name", kind.name},       {"family", kind.family},    {"summary", kind.summary}, {"paper", kind.paper},
          {"cost", cost_text(kind)}, {"parameters", parameters}, {"features", features}};
}

std::size_t longest_name(const std::vector<const MechanismKind*>& kinds) {
  std::size_t longest = 4;
  for (const MechanismKind* kind : kinds) longest = std::max(longest, kind->name.size());
  return longest;
}

std::string summaries(const std::vector<const MechanismKind*>& kinds) {
  const std::size_t name = longest_name(kinds) + 2, family = 16;
  std::string out;
  for (const MechanismKind* kind : kinds)
    out += fmt::format("{:<{}}{:<{}}{}\n", kind->name, name, kind->family, family,
                       wrap(std::string(kind->summary), kPageWidth - name - family, name + family));
  return out;
}

// What goes with a mechanism: how pairs are scored, how a model tells positions.
std::string options() {
  std::string out = "scores, given as softmax:score=NAME; not every mechanism has the parameter\n";
  for (const ScoreKind& score : score_kinds()) out += fmt::format("  {:<14}{}\n", score.name, score.summary);
  out += fmt::format("  {:<14}{}\n", "additive", "v . tanh(q + k): the mechanism \"additive\"");
  out += "\npositions, given to a model as --set model.positions=NAME\n";
  for (const PositionKind& kind : position_kinds()) out += fmt::format("  {:<14}{}\n", kind.name, kind.summary);
  return out;
}

Json options_json(const auto& kinds) {
  Json all = Json::array();
  for (const auto& kind : kinds) all.push_back({{"name", kind.name}, {"summary", kind.summary}});
  return all;
}

// A line for each letter: column `i` spells texts[i] from top to bottom.
std::string downward(const std::vector<std::string>& texts, std::size_t indent, std::size_t column) {
  std::size_t longest = 0;
  for (const std::string& text : texts) longest = std::max(longest, text.size());
  std::string out;
  for (std::size_t row = 0; row < longest; ++row) {
    std::string line(indent, ' ');
    for (const std::string& text : texts) {  // they end at the same line
      const std::size_t above = longest - text.size();
      line += fmt::format("{:<{}}", row < above ? ' ' : text[row - above], column);
    }
    out += line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
  }
  return out;
}

// Mechanisms down, features across; their names are written downward, so that all fit 80 columns.
std::string support_matrix(const std::vector<const MechanismKind*>& kinds) {
  const std::size_t name = longest_name(kinds) + 2;
  const std::size_t column = std::clamp<std::size_t>((kPageWidth - name) / kFeatures, 2, 14);
  std::vector<std::string> features;
  for (int i = 0; i < kFeatures; ++i) features.push_back(feature_name(i));
  std::string out = downward(features, name, column);
  for (const MechanismKind* kind : kinds) {
    std::string line = fmt::format("{:<{}}", kind->name, name);
    for (int i = 0; i < kFeatures; ++i)
      line += fmt::format("{:<{}}", kind->features.has(static_cast<Feature>(i)) ? "x" : ".", column);
    out += line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
  }
  return out;
}

std::string details(const MechanismKind& kind) {
  std::string features;
  for (int i = 0; i < kFeatures; ++i)
    if (kind.features.has(static_cast<Feature>(i))) features += " " + feature_name(i);
  std::string out =
      fmt::format("{}: {}\n\n", kind.name, wrap(std::string(kind.summary), kPageWidth - kind.name.size(), 2));
  out += fmt::format("family    {}\ncost      {} in length\npaper     {}\nsupports  {}\n", kind.family, cost_text(kind),
                     kind.paper, wrap(features, kPageWidth - 10, 10));
  if (kind.parameters.empty()) return out + "\nno parameters\n";
  out += fmt::format("\nparameters, given as {}:NAME=VALUE,...\n", kind.name);
  for (const ParameterSpec& spec : kind.parameters) {
    const std::string text = fmt::format("{} [{}] ({})", spec.help, value_text(spec.fallback), range_text(spec));
    out += fmt::format("  {:<14}{}\n", spec.name, wrap(text, kPageWidth - 16, 16));
  }
  return out;
}

// "softmax*4", "diag:block=64,weights=softmax*1": the names alone.
std::string layers_text(const ModelConfig& model) {
  std::vector<std::string> names;
  for (const std::string& layer : model.layers)
    if (const std::string name = layer.substr(0, layer.find(':')); names.empty() || names.back() != name)
      names.push_back(name);
  return fmt::format("{} {}", model.layers.size(), fmt::join(names, "+"));
}

void list_models(const Console& console) {
  Json document = Json::array();
  std::string out = fmt::format("{:<20}{:<12}{:<16}{:>5}\n", "model", "task", "layers", "width");
  for (const std::string_view name : ModelConfig::preset_names()) {
    const ModelConfig model = ModelConfig::preset(name);
    const std::string_view task = task_names()[static_cast<std::size_t>(model.task)], summary = preset_summary(name);
    out += fmt::format("{:<20}{:<12}{:<16}{:>5}\n    {}\n", name, task, layers_text(model), model.width, summary);
    document.push_back(
        {{"name", name}, {"task", task}, {"layers", model.layers}, {"width", model.width}, {"summary", summary}});
  }
  console.document({{"models", document}});
  console.print(out + "\nits settings: fovea show NAME; with a mechanism: --model NAME --attention diag");
}

void list_data(const Console& console) {
  Json document = Json::array();
  std::string out;
  for (const DataKind& kind : data_kinds()) {
    const std::size_t indent = 12;
    out += fmt::format("{:<{}}{}\n", kind.name, indent, wrap(std::string(kind.summary), kPageWidth - indent, indent));
    document.push_back({{"name", kind.name}, {"summary", kind.summary}});
  }
  console.document({{"data", document}});
  console.print(out + "\ngiven as --data FOLDER or FILE; files tell the kind, or --set data.kind=NAME");
}

void list_one(const std::string& name, const Console& console) {
  if (name == "models") return list_models(console);
  if (name == "data") return list_data(console);
  const MechanismKind& kind = Mechanism::parse(name).kind();
  console.print(details(kind));
  console.document(kind_json(kind));
}

void update_docs(const std::string& folder, const Console& console) {
  const std::vector<Path> changed = write_mechanism_docs(folder);
  Json files = Json::array();
  for (const Path& path : changed) files.push_back(path.string());
  console.document({{"changed", files}});
  console.print(changed.empty() ? "every page is up to date" : fmt::format("wrote {} files", changed.size()));
}

void list_all(const std::string& with, const Console& console) {
  const std::vector<const MechanismKind*> kinds = chosen_kinds(with);
  Json document = Json::array();
  for (const MechanismKind* kind : kinds) document.push_back(kind_json(*kind));
  console.document({{"mechanisms", document},
                    {"scores", options_json(score_kinds())},
                    {"positions", options_json(position_kinds())},
                    {"models", ModelConfig::preset_names()}});
  if (kinds.empty()) return console.print("no mechanism has all of these");
  const std::string models = fmt::format("models: {}", fmt::join(ModelConfig::preset_names(), ", "));
  console.print(fmt::format("{}\n{}\n{}\n{}\nmore about one: fovea list NAME, fovea list models, fovea list data",
                            summaries(kinds), options(), support_matrix(kinds), wrap(models, kPageWidth - 8, 8)));
}

}  // namespace

void add_list(Program& program) {
  const auto options = std::make_shared<ListOptions>();
  const Arguments verb =
      program.add({"list",
                   "Lists the attention mechanisms and what each supports.",
                   {"fovea list --with causal,step", "fovea list models"}},
                  [options](const Console& console) {
                    if (!options->docs.empty()) return update_docs(options->docs, console);
                    options->name.empty() ? list_all(options->with, console) : list_one(options->name, console);
                  });
  verb.add_option("name", options->name, "models, data, or a mechanism to show with its parameters");
  verb.add_option("--with", options->with, "only those that have all of these features").type_name("A,B");
  verb.add_option("--docs", options->docs, "bring the pages of docs/mechanisms up to date").type_name("FOLDER");
}

}  // namespace fovea::cli
