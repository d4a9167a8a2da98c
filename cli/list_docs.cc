#include "cli/list_docs.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "cli/bench_growth.h"
#include "cli/list_text.h"
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
  return fmt::format("{}\n{}{}## Parameters\n\n{}\n## Support\n\n{}\nCost: {} in the length.\n", kBegin,
                     picture_line(kind), growth ? measured_section(*growth, kind.name) : "", parameter_table(kind),
                     feature_lists(kind), cost_text(kind));
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
      "the "
      "last block of a sequence is shorter, segments of landmarks differ by at most one token, and a size beyond the "
      "length means all of it. A row that may read nothing is 0, and so are its gradients. What a mechanism does not "
      "have is an error that names it.\n";
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
