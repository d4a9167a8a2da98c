#include "cli/verbs/list_docs.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "cli/verbs/bench_growth.h"
#include "cli/verbs/list_text.h"
#include "core/rng.h"
#include "fovea/attention.h"
#include "fovea/model.h"
#include "io/folder.h"
#include "io/section.h"
#include "mechanisms/kind.h"
#include "mechanisms/score.h"
#include "report/grid.h"

namespace fovea::cli {
namespace {

constexpr std::string_view kBegin = "<!-- from here on written by: fovea list --docs -->\n";
constexpr std::int64_t kTokens = 48;
constexpr std::size_t kPageCap = std::size_t{1} << 20;

std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : text) out += c == '|' ? std::string("\\|") : std::string(1, c);
  return out;
}

std::string parameter_table(const MechanismKind& kind) {
  if (kind.parameters.empty()) return "It has no parameters.\n";
  std::string out = "| Name | Default | Values | Meaning |\n| --- | --- | --- | --- |\n";
  for (const ParameterSpec& spec : kind.parameters)
    out += fmt::format("| `{}` | {} | {} | {} |\n", spec.name, value_text(spec.fallback), range_text(spec),
                       escaped(spec.help));
  return out;
}

// A weight of a mechanism, and the setting that brings it; empty: it is there by default.
struct WeightRow {
  WeightSpec spec;
  std::string setting;
};

void add_rows(const Mechanism& mechanism, const std::string& setting, std::vector<WeightRow>& rows) {
  constexpr LayerSizes kAny{.heads = 4, .kv_heads = 2, .d_k = 6, .d_v = 10, .width = 24, .max_length = 64};
  for (const WeightSpec& spec : mechanism.weights(kAny)) {
    const auto same = [&](const WeightRow& row) { return row.spec.name == spec.name && row.spec.axes == spec.axes; };
    if (std::none_of(rows.begin(), rows.end(), same)) rows.push_back({spec, setting});
  }
}

// Those of the defaults, then what other choices of a parameter add.
std::vector<WeightRow> weight_rows(const MechanismKind& kind) {
  std::vector<WeightRow> rows;
  add_rows(Mechanism(kind.name), "", rows);
  for (const ParameterSpec& spec : kind.parameters) {
    std::vector<ParameterValue> others;
    for (const std::string_view choice : spec.choices) others.emplace_back(std::string(choice));
    if (std::holds_alternative<bool>(spec.fallback)) others = {true, false};
    if (std::holds_alternative<std::int64_t>(spec.fallback) && spec.low == 0.0) others = {std::int64_t{4}};
    for (const ParameterValue& value : others) {
      const std::vector<Mechanism::Setting> settings{{std::string(spec.name), value}};
      const std::string shown = std::holds_alternative<std::int64_t>(value) ? " > 0" : "=" + value_text(value);
      add_rows(Mechanism(kind.name, settings), fmt::format("`{}{}`", spec.name, shown), rows);
    }
  }
  return rows;
}

std::string weight_table(const MechanismKind& kind) {
  const std::vector<WeightRow> rows = weight_rows(kind);
  if (rows.empty()) return "It has no weights of its own.\n";
  std::string out =
      "In this order; heads are those of q, kv_heads those of k and v, width that of the layer's input.\n\n"
      "| Name | Shape | Meaning | |\n| --- | --- | --- | --- |\n";
  for (const auto& [spec, setting] : rows) {
    std::string notes = setting.empty() ? "" : fmt::format("with {}", setting);
    if (!spec.trained) notes += fmt::format("{}drawn, not trained", notes.empty() ? "" : "; ");
    if (spec.shared) notes += fmt::format("{}one for all layers", notes.empty() ? "" : "; ");
    out += fmt::format("| `{}` | ({}) | {} | {} |\n", spec.name, spec.axes, escaped(spec.meaning), notes);
  }
  return out;
}

std::string feature_lists(const MechanismKind& kind) {
  std::string yes, no;
  for (int i = 0; i < kFeatures; ++i) {
    std::string& list = kind.features.has(static_cast<Feature>(i)) ? yes : no;
    list += fmt::format("{}{}", list.empty() ? "" : ", ", feature_name(i));
  }
  return fmt::format("Has: {}.\n{}", yes, no.empty() ? "" : fmt::format("\nHas not: {}.\n", no));
}

std::string picture_name(const MechanismKind& kind) { return fmt::format("pictures/{}.svg", kind.name); }

std::string picture_line(const MechanismKind& kind) {
  if (kind.picture.empty()) return "";
  return fmt::format("## Picture\n\n![{0}]({1})\n\nWho reads whom, `{0}` on {2} tokens: queries down, keys across.\n\n",
                     kind.picture, picture_name(kind), kTokens);
}

std::string generated(const MechanismKind& kind, const std::optional<GrowthReport>& growth) {
  return fmt::format("{}\n{}{}## Parameters\n\n{}\n## Weights\n\n{}\n## Support\n\n{}\nCost: {} in the length.\n",
                     kBegin, picture_line(kind), growth ? measured_section(*growth, kind.name) : "",
                     parameter_table(kind), weight_table(kind), feature_lists(kind), cost_text(kind));
}

// The weights of head 0, found by giving every key a value of its own: column j of o is the weight of key j.
Grid weights_of(const Mechanism& mechanism) {
  reference::Problem problem;
  problem.n_q = problem.n_k = problem.d_v = kTokens;
  problem.heads = problem.kv_heads = 1;
  problem.d_k = 4;
  problem.causal = !mechanism.supports(Feature::bidirectional);
  Random random(1);
  const auto fill = [&](std::vector<double>& values) {
    values.resize(static_cast<std::size_t>(kTokens * problem.d_k));
    for (double& x : values) x = 0.3 * random.normal();
  };
  fill(problem.q);
  fill(problem.k);
  problem.v.assign(static_cast<std::size_t>(kTokens * kTokens), 0.0);
  for (std::int64_t i = 0; i < kTokens; ++i) problem.v[static_cast<std::size_t>(i * kTokens + i)] = 1.0;
  const LayerSizes sizes{.heads = 1, .kv_heads = 1, .d_k = problem.d_k, .d_v = kTokens, .max_length = kTokens};
  for (const Var& w : make_weights(Context(), mechanism, sizes, DType::f64))
    problem.weights.push_back(w.value().to_vector<double>());
  Grid grid{kTokens, kTokens, mechanism.kind().reference(problem, mechanism).o};
  for (double& x : grid.values) x = std::min(1.0, std::abs(x));
  return grid;
}

std::string family_table(std::string_view family) {
  std::string out = fmt::format("\n## {}\n\n| Name | What it is | Cost | |\n| --- | --- | --- | --- |\n", family);
  for (const MechanismKind* kind : mechanism_kinds())
    if (kind->family == family)
      out += fmt::format("| [`{0}`]({0}.md) | {1} | {2} | {3} |\n", kind->name, escaped(kind->summary),
                         cost_text(*kind), kind->picture.empty() ? "" : fmt::format("![]({})", picture_name(*kind)));
  return out;
}

std::string option_tables() {
  std::string out =
      "\n## scores\n\nOf the mechanisms that have the parameter: `softmax:score=cosine`.\n\n| Name | Score of a pair "
      "|\n| --- | --- |\n";
  for (const ScoreKind& score : score_kinds()) out += fmt::format("| `{}` | {} |\n", score.name, score.summary);
  out += "| [`additive`](additive.md) | v . tanh(q + k): a mechanism of its own |\n";
  out +=
      "\n## positions\n\nOf a model: `--set model.positions=rope`.\n\n| Name | What it is | Paper |\n| --- | --- | --- "
      "|\n";
  for (const PositionKind& kind : position_kinds())
    out += fmt::format("| `{}` | {} | {} |\n", kind.name, kind.summary, kind.paper);
  return out;
}

std::string index() {
  std::string out =
      "# Mechanisms\n\nWritten by `fovea list --docs docs/mechanisms` from the registry that the program itself uses. "
      "Pictures show who reads whom among 48 tokens: queries down, keys across.\n\nSizes need not divide the length: "
      "the last block of a sequence is shorter, segments of landmarks differ by at most one token, and a size beyond "
      "the length means all of it. A row that may read nothing is 0, and so are its gradients. Where a causal call has "
      "other lengths of queries and keys, the last query stands on the last key (`align=bottom-right`), or the first "
      "on the first (`align=top-left`): then nobody reads keys behind the last query, and each query behind the last "
      "key stands on it, by itself, in a run of its own (many of them cost less in a call that is not causal). What a "
      "mechanism does not have is an error that names it.\n";
  std::vector<std::string_view> families;
  for (const MechanismKind* kind : mechanism_kinds())
    if (std::find(families.begin(), families.end(), kind->family) == families.end()) families.push_back(kind->family);
  for (const std::string_view family : families) out += family_table(family);
  out += option_tables();
  out += "\n## Support\n\n| |";
  for (int i = 0; i < kFeatures; ++i) out += fmt::format(" {} |", feature_name(i));
  out += "\n| --- |";
  for (int i = 0; i < kFeatures; ++i) out += " --- |";
  for (const MechanismKind* kind : mechanism_kinds()) {
    out += fmt::format("\n| `{}` |", kind->name);
    for (int i = 0; i < kFeatures; ++i) out += kind->features.has(static_cast<Feature>(i)) ? " yes |" : "  |";
  }
  return out + "\n";
}

class Writer {
 public:
  void write(const Path& path, const std::string& text) {
    if (is_there(path) && read_file(path, kPageCap) == text) return;
    write_file(path, text);
    changed.push_back(path);
  }
  std::vector<Path> changed;
};

}  // namespace

std::vector<Path> write_mechanism_docs(const Path& folder) {
  Writer writer;
  const std::optional<GrowthReport> growth = read_growth(folder.has_parent_path() ? folder.parent_path() : ".");
  make_folder(folder / "pictures");
  for (const MechanismKind* entry : mechanism_kinds()) {
    const MechanismKind& kind = *entry;
    const Path page = folder / fmt::format("{}.md", kind.name);
    if (!is_there(page))
      fail(ErrorCode::bad_input, fmt::format("there is no page about \"{}\"", kind.name), page.string(),
           "a page that says what it is, its definition, its cost and its paper");
    std::string text = before_marker(read_file(page, kPageCap), kBegin);
    while (text.ends_with('\n')) text.pop_back();
    writer.write(page, text + "\n\n" + generated(kind, growth));
    if (!kind.picture.empty())
      writer.write(folder / picture_name(kind),
                   grid_svg(weights_of(Mechanism::parse(kind.picture)), fmt::format("{} pattern", kind.name)));
  }
  writer.write(folder / "README.md", index());
  return writer.changed;
}

}  // namespace fovea::cli
