#include "experiment/reproduce/results.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "core/statistics.h"
#include "fovea/version.h"
#include "io/csv.h"

namespace fovea {
namespace {

// What is known without a model, by the value of a column. `value`: of an outcome.
struct Baseline {
  std::string_view column, value, title;
  const char* key;  // in results.json
};
constexpr Baseline kBaselines[] = {
    {"accuracy", "majority", "most frequent class", "most_frequent_class"},
    {"perplexity", "frequency_perplexity", "token frequencies", "token_frequencies"},
    {"validation_perplexity", "validation_frequency_perplexity", "token frequencies", "token_frequencies"},
};

// Null: a column of this value has none.
const Baseline* baseline_of(const StudyColumn& column) {
  for (const Baseline& one : kBaselines)
    if (one.column == column.value) return &one;
  return nullptr;
}

// As the enumerations have them.
constexpr const char* kQuantityNames[] = {"number", "percent", "seconds", "bytes", "ratio", "count", "text"};
constexpr const char* kBestNames[] = {"none", "highest", "lowest"};

// Percents are points: 1.2, not 1.2%.
std::string shown(double value, Quantity quantity) {
  if (!std::isfinite(value)) return "-";
  const Unit unit = quantity == Quantity::percent ? Unit{100.0, "%"} : unit_for(quantity, std::abs(value));
  return number_text(value * unit.factor) + (quantity == Quantity::bytes ? " " + std::string(unit.text) : "");
}

double factor_of(Quantity quantity) { return quantity == Quantity::percent ? 100.0 : 1.0; }

std::string ours_text(const StudyValue& value, Quantity quantity) {
  if (value.seeds == 0) return value.trouble.empty() ? "not run" : value.trouble;
  std::string text = shown(value.mean, quantity);
  const double factor = factor_of(quantity);
  if (value.spread > 0.0 && quantity != Quantity::bytes)
    text += " ± " + number_text_like(factor * value.spread, factor * value.mean);
  return text;
}

std::string difference_text(const StudyValue& value, Quantity quantity) {
  return std::isfinite(value.difference()) ? fmt::format("{:+.3g}", factor_of(quantity) * value.difference()) : "-";
}

StudyValue value_of(const std::vector<const Outcome*>& outcomes, const std::string& name) {
  StudyValue out;
  std::vector<double> numbers;
  for (const Outcome* outcome : outcomes) {
    if (!outcome->trouble.empty()) out.trouble = outcome->trouble;
    const double value = outcome->value(name);
    if (std::isfinite(value)) numbers.push_back(value);
    out.complete = outcome->complete() && (out.complete || out.budget.empty());
    if (out.budget.empty() || out.budget == "full") out.budget = outcome->budget();
  }
  if (!outcomes.empty() && numbers.empty() && out.trouble.empty()) out.trouble = "not a finite number";
  out.seeds = numbers.size();
  if (numbers.empty()) return out;
  const Sample sample = describe(numbers);
  out.mean = sample.mean;
  out.spread = sample.deviation;
  return out;
}

StudyCost cost_of(const std::vector<const Outcome*>& outcomes) {
  StudyCost cost;
  const double share = outcomes.empty() ? 0.0 : 1.0 / static_cast<double>(outcomes.size());
  for (const Outcome* outcome : outcomes) {
    cost.parameters += share * static_cast<double>(outcome->parameters);
    cost.steps += share * static_cast<double>(outcome->steps);
    cost.tokens += share * static_cast<double>(outcome->tokens);
    cost.seconds += share * outcome->seconds;
    cost.peak_memory += share * static_cast<double>(outcome->peak_memory);
  }
  return cost;
}

CsvCell number_cell(double value) { return std::isfinite(value) ? CsvCell(value) : CsvCell(); }
Json number_json(double value) { return std::isfinite(value) ? Json(value) : Json(); }

}  // namespace

StudyResults::StudyResults(const StudyPlan& plan) : plan_(&plan) {
  const std::vector<FinishedCell> cells = finished_cells(plan);
  done_ = cells.size();
  if (!cells.empty()) machine_ = cells.front().outcome.machine;
  baseline_.assign(study().columns.size(), kUnpublished);
  for (std::size_t row = 0; row < study().rows.size(); ++row) judge(row, cells);
}

void StudyResults::judge(std::size_t row, const std::vector<FinishedCell>& cells) {
  std::vector<std::vector<const Outcome*>> outcomes(study().trials.size());
  for (const FinishedCell& cell : cells)
    if (cell.cell.row == row) outcomes[cell.cell.trial].push_back(&cell.outcome);
  values_.emplace_back();
  costs_.emplace_back();
  for (std::size_t i = 0; i < study().columns.size(); ++i) {
    const StudyColumn& column = study().columns[i];
    values_.back().push_back(value_of(outcomes[column.trial], column.value));
    values_.back().back().published = study().published(row, i);
    if (!study().rows[row].missing.empty()) values_.back().back().trouble = study().rows[row].missing;
    const Baseline* const baseline = baseline_of(column);
    if (baseline == nullptr) continue;
    for (const Outcome* outcome : outcomes[column.trial])
      if (const double value = outcome->value(baseline->value); std::isfinite(value)) baseline_[i] = value;
  }
  for (const auto& of_trial : outcomes) costs_.back().push_back(cost_of(of_trial));
}

std::vector<std::size_t> StudyResults::rows() const {
  std::vector<std::size_t> rows;
  for (std::size_t row = 0; row < study().rows.size(); ++row) {
    bool run = false;
    for (std::size_t trial = 0; trial < study().trials.size(); ++trial) run = run || plan_->shows(row, trial);
    if (run) rows.push_back(row);
  }
  return rows;
}

std::string StudyResults::cell_text(std::size_t row, std::size_t column) const {
  const StudyValue& value = values_[row][column];
  const std::string text = ours_text(value, study().columns[column].quantity);
  return value.seeds == 0 || value.complete ? text : fmt::format("{} ({})", text, value.budget);
}

Table StudyResults::summary() const {
  std::vector<TableColumn> columns;
  for (std::size_t i = 0; i < study().columns.size(); ++i)
    if (has_column(i))
      columns.push_back(
          {study().columns[i].name + (study().columns[i].quantity == Quantity::percent ? " (%)" : ""), Quantity::text});
  Table table(columns, "model");
  for (const std::size_t row : rows()) {
    std::vector<TableCell> cells;
    for (std::size_t i = 0; i < study().columns.size(); ++i)
      if (has_column(i)) cells.emplace_back(cell_text(row, i));
    table.add(study().rows[row].name, std::move(cells));
  }
  std::vector<std::string_view> titles;
  std::vector<TableCell> baseline;
  for (std::size_t i = 0; i < study().columns.size(); ++i) {
    if (!has_column(i)) continue;
    baseline.emplace_back(shown(baseline_[i], study().columns[i].quantity));
    if (!std::isfinite(baseline_[i])) continue;
    const std::string_view title = baseline_of(study().columns[i])->title;
    if (std::find(titles.begin(), titles.end(), title) == titles.end()) titles.push_back(title);
  }
  if (!titles.empty()) table.add(fmt::format("{}", fmt::join(titles, ", ")), std::move(baseline));
  return table;
}

Table StudyResults::details(std::size_t column) const {
  const StudyColumn& spec = study().columns[column];
  const bool percent = spec.quantity == Quantity::percent;
  Table table({{"paper", Quantity::text},
               {"ours", Quantity::text},
               {"difference", Quantity::text},
               {"budget", Quantity::text},
               {"seeds", Quantity::count},
               {"parameters", Quantity::count},
               {"steps", Quantity::count},
               {"tokens", Quantity::count},
               {"time", Quantity::seconds},
               {"peak memory", Quantity::bytes}},
              spec.name + (percent ? " (%)" : ""));
  constexpr std::size_t kCosts = 6;
  for (const std::size_t row : rows()) {
    if (!plan_->shows(row, spec.trial)) continue;
    const StudyValue& value = values_[row][column];
    const StudyCost& cost = costs_[row][spec.trial];
    std::vector<TableCell> cells = {shown(value.published, spec.quantity), ours_text(value, spec.quantity),
                                    difference_text(value, spec.quantity), value.seeds > 0 ? value.budget : "-"};
    for (const double number :
         {static_cast<double>(value.seeds), cost.parameters, cost.steps, cost.tokens, cost.seconds, cost.peak_memory})
      cells.emplace_back(value.seeds > 0 && number > 0.0 ? number : kUnpublished);
    table.add(study().rows[row].name, std::move(cells));
  }
  if (!std::isfinite(baseline_[column])) return table;
  std::vector<TableCell> baseline = {"-", shown(baseline_[column], spec.quantity), "-", "-"};
  baseline.resize(baseline.size() + kCosts, kUnpublished);
  table.add(std::string(baseline_of(spec)->title), std::move(baseline));
  return table;
}

Json StudyResults::json() const {
  Json cells = Json::array();
  for (const std::size_t row : rows())
    for (std::size_t i = 0; i < study().columns.size(); ++i) {
      const StudyColumn& column = study().columns[i];
      if (!plan_->shows(row, column.trial)) continue;
      const StudyValue& value = values_[row][i];
      const StudyCost& cost = costs_[row][column.trial];
      cells.push_back({{"row", study().rows[row].name},
                       {"column", column.name},
                       {"value", column.value},
                       {"quantity", kQuantityNames[static_cast<std::size_t>(column.quantity)]},
                       {"best", kBestNames[static_cast<std::size_t>(column.best)]},
                       {"published", number_json(value.published)},
                       {"mean", number_json(value.mean)},
                       {"spread", value.spread},
                       {"seeds", value.seeds},
                       {"difference", number_json(value.difference())},
                       {"budget", value.budget},
                       {"full_budget", value.complete},
                       {"trouble", value.trouble},
                       {"parameters", cost.parameters},
                       {"steps", cost.steps},
                       {"tokens", cost.tokens},
                       {"seconds", cost.seconds},
                       {"peak_memory", cost.peak_memory}});
    }
  Json document = {{"version", FOVEA_VERSION},
                   {"study", study().name},
                   {"title", study().title},
                   {"source", study().source},
                   {"quick", plan_->choices().quick},
                   {"cells_done", done_},
                   {"cells", plan_->cells().size()},
                   {"machine", machine_},
                   {"choices", write_fields(plan_->choices())},
                   {"results", cells}};
  for (const Baseline& one : kBaselines) document.emplace(one.key, Json::object());
  for (std::size_t i = 0; i < baseline_.size(); ++i)
    if (std::isfinite(baseline_[i]))
      document[baseline_of(study().columns[i])->key][study().columns[i].name] = baseline_[i];
  return document;
}

std::string StudyResults::csv() const {
  std::string out = csv_line({std::string("row"), std::string("column"), std::string("value"), std::string("published"),
                              std::string("mean"), std::string("spread"), std::string("seeds"), std::string("budget"),
                              std::string("parameters"), std::string("steps"), std::string("tokens"),
                              std::string("seconds"), std::string("peak_memory")});
  for (const std::size_t row : rows())
    for (std::size_t i = 0; i < study().columns.size(); ++i) {
      const StudyColumn& column = study().columns[i];
      if (!plan_->shows(row, column.trial)) continue;
      const StudyValue& value = values_[row][i];
      const StudyCost& cost = costs_[row][column.trial];
      out += csv_line({study().rows[row].name, column.name, column.value, number_cell(value.published),
                       number_cell(value.mean), value.spread, static_cast<std::int64_t>(value.seeds),
                       value.trouble.empty() ? value.budget : value.trouble, cost.parameters, cost.steps, cost.tokens,
                       cost.seconds, cost.peak_memory});
    }
  return out;
}

}  // namespace fovea
