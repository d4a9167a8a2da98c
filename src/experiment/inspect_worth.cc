#include "experiment/inspect_worth.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>

namespace fovea {
namespace {

std::string prefix(const InspectPage& page, const InspectedModel& model) {
  return page.models.size() > 1 ? model.name + " " : "";
}

std::string_view class_of(const InspectedModel& model, const HeadImportance& of) {
  for (const LayerRecord& layer : model.record.layers)
    for (const HeadRecord& head : layer.heads)
      if (layer.index == of.layer && head.head == of.head) return name_of(head.verdict.head_class);
  return "";
}

// The mean of the numbers there are.
class Mean {
 public:
  void add(double value) {
    if (!std::isfinite(value)) return;
    sum_ += value;
    count_ += 1.0;
  }
  double value() const { return count_ > 0.0 ? sum_ / count_ : std::nan(""); }

 private:
  double sum_ = 0.0, count_ = 0.0;
};

// Rows of one mechanism and length, over the layers.
struct Together {
  std::string name, reason;
  std::int64_t length = 0;
  Mean error = {}, divergence = {}, agreement = {}, time = {};

  bool fits(const std::string& other, std::int64_t tokens) const { return name == other && length == tokens; }
  void add(const ApproximationRow& row) {
    error.add(row.output_error);
    divergence.add(row.divergence);
    agreement.add(row.top_agreement);
    time.add(row.seconds / row.softmax_seconds);
    if (!row.reason.empty()) reason = row.reason;
  }
};

std::vector<Together> joined(const InspectPage& page, bool by_layer) {
  std::vector<Together> out;
  for (const InspectedModel& model : page.models)
    for (const LayerApproximation& of : model.approximation) {
      const std::string layer = by_layer ? fmt::format("layer {} ", of.layer) : "";
      const std::string name = prefix(page, model) + layer + of.row.mechanism;
      auto at = std::find_if(out.begin(), out.end(), [&](const Together& t) { return t.fits(name, of.row.length); });
      if (at == out.end()) at = out.insert(out.end(), Together{.name = name, .reason = {}, .length = of.row.length});
      at->add(of.row);
    }
  return out;
}

}  // namespace

Table inspect_importance_table(const InspectPage& page) {
  constexpr std::size_t kShown = 8;  // of either end
  Table table({{"class", Quantity::text}, {"importance", Quantity::number}, {"loss without it", Quantity::number}},
              "head");
  for (const InspectedModel& model : page.models) {
    std::vector<const HeadImportance*> heads;
    for (const HeadImportance& head : model.importance) heads.push_back(&head);
    std::stable_sort(heads.begin(), heads.end(), [](const HeadImportance* a, const HeadImportance* b) {
      return std::isfinite(a->by_ablation) ? a->by_ablation > b->by_ablation : a->by_gradient > b->by_gradient;
    });
    for (std::size_t i = 0; i < heads.size(); ++i) {
      if (heads.size() > 3 * kShown && i == kShown) {
        table.add("...", {"", std::nan(""), std::nan("")});
        i = heads.size() - kShown;
      }
      const HeadImportance& head = *heads[i];
      table.add(fmt::format("{}layer {} head {}", prefix(page, model), head.layer, head.head),
                {std::string(class_of(model, head)), head.by_gradient, head.by_ablation});
    }
  }
  return table;
}

Plot inspect_importance_plot(const InspectPage& page, bool by_ablation) {
  Plot plot{.title = by_ablation ? "What the loss grows by without each head" : "How much the loss feels each head",
            .x = {.name = "heads, the most important first", .include = {1.0}},
            .y = {.name = by_ablation ? "loss without it" : "importance", .include = {0.0}},
            .series = {}};
  for (const InspectedModel& model : page.models) {
    Series series{.name = model.name};
    for (const HeadImportance& head : model.importance)
      if (const double worth = by_ablation ? head.by_ablation : head.by_gradient; std::isfinite(worth))
        series.y.push_back(worth);
    std::sort(series.y.begin(), series.y.end(), std::greater());
    for (std::size_t i = 0; i < series.y.size(); ++i) series.x.push_back(static_cast<double>(i + 1));
    if (!series.y.empty()) plot.series.push_back(std::move(series));
  }
  return plot;
}

Table inspect_pruning_table(const InspectPage& page) {
  Table table({{"of them", Quantity::percent}, {"loss", Quantity::number}, {"accuracy", Quantity::percent}},
              "heads taken out");
  for (const InspectedModel& model : page.models)
    for (const PruningStep& step : model.pruning.steps)
      table.add(
          fmt::format("{}{}", prefix(page, model), step.removed),
          {static_cast<double>(step.removed) / static_cast<double>(model.importance.size()), step.loss, step.accuracy});
  return table;
}

Plot inspect_pruning_plot(const InspectPage& page) {
  Plot plot{.title = "The loss as heads are taken out",
            .x = {.name = "heads taken out", .unit = "%", .include = {0.0, 100.0}},
            .y = {.name = "loss"},
            .series = {}};
  for (const InspectedModel& model : page.models) {
    if (model.pruning.steps.empty()) continue;
    Series series{.name = model.name};
    for (const PruningStep& step : model.pruning.steps) {
      series.x.push_back(100.0 * static_cast<double>(step.removed) / static_cast<double>(model.importance.size()));
      series.y.push_back(step.loss);
    }
    plot.series.push_back(std::move(series));
  }
  return plot;
}

Table inspect_approximation_table(const InspectPage& page, bool by_layer) {
  Table table({{"tokens", Quantity::number},
               {"error", Quantity::percent},
               {"divergence", Quantity::number},
               {"top keys", Quantity::percent},
               {"time", Quantity::ratio},
               {"why not", Quantity::text}},
              "in place of softmax");
  for (const Together& row : joined(page, by_layer))
    table.add(row.name, {static_cast<double>(row.length), row.error.value(), row.divergence.value(),
                         row.agreement.value(), row.time.value(), row.reason});
  return table;
}

Plot inspect_approximation_plot(const InspectPage& page) {
  Plot plot{.title = "Error of the output, beside softmax",
            .x = {.name = "tokens", .scale = Scale::log2},
            .y = {.name = "error", .unit = "%", .include = {0.0}},
            .series = {}};
  for (const Together& row : joined(page, false)) {
    auto at = std::find_if(plot.series.begin(), plot.series.end(), [&](const Series& s) { return s.name == row.name; });
    if (at == plot.series.end()) at = plot.series.insert(at, Series{.name = row.name});
    at->x.push_back(static_cast<double>(row.length));
    at->y.push_back(100.0 * row.error.value());
  }
  return plot;
}

}  // namespace fovea
