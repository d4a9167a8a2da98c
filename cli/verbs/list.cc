#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "cli/kit/help.h"
#include "cli/kit/options.h"
#include "cli/kit/verb.h"
#include "cli/verbs/list_docs.h"
#include "cli/verbs/list_text.h"
#include "core/nearest.h"
#include "fovea/model.h"
#include "io/json.h"
#include "mechanisms/kind.h"
#include "mechanisms/score.h"

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
  const std::size_t name = longest_name(kinds) + 2, family = 15;
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

// Mechanisms down, features across; headings are cut so that all fit 80 columns.
std::string support_matrix(const std::vector<const MechanismKind*>& kinds) {
  const std::size_t name = longest_name(kinds) + 1;
  const std::size_t column = std::clamp<std::size_t>((kPageWidth - name) / kFeatures, 3, 14);
  std::string out = std::string(name, ' ');
  for (int i = 0; i < kFeatures; ++i) out += fmt::format("{:<{}}", feature_name(i).substr(0, column - 1), column);
  for (const MechanismKind* kind : kinds) {
    out += fmt::format("\n{:<{}}", kind->name, name);
    for (int i = 0; i < kFeatures; ++i)
      out +=
          fmt::format("{:<{}}", kind->features.has(static_cast<Feature>(i)) ? (column > 3 ? "yes" : "x") : ".", column);
  }
  std::string legend = "columns:";
  for (int i = 0; i < kFeatures; ++i) legend += " " + feature_name(i);
  return out + "\n" + wrap(legend, kPageWidth, 9) + "\n";
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

void list_one(const std::string& name, const Console& console) {
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
  console.print(fmt::format("{}\n{}\n{}\n{}\nmore about one: fovea list NAME", summaries(kinds), options(),
                            support_matrix(kinds), wrap(models, kPageWidth - 8, 8)));
}

}  // namespace

void add_list(Program& program) {
  const auto options = std::make_shared<ListOptions>();
  const Arguments verb =
      program.add({"list",
                   "Lists the attention mechanisms and what each supports.",
                   {"fovea list --with causal,step", "fovea list diag"}},
                  [options](const Console& console) {
                    if (!options->docs.empty()) return update_docs(options->docs, console);
                    options->name.empty() ? list_all(options->with, console) : list_one(options->name, console);
                  });
  verb.add_option("name", options->name, "show one mechanism with its parameters");
  verb.add_option("--with", options->with, "only those that have all of these features").type_name("A,B");
  verb.add_option("--docs", options->docs, "bring the pages of docs/mechanisms up to date").type_name("FOLDER");
}

}  // namespace fovea::cli
