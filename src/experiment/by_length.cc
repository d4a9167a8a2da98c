#include "experiment/by_length.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "core/statistics.h"
#include "experiment/scores.h"
#include "train/evaluation.h"

namespace fovea {
namespace {

constexpr std::int64_t kGroups = 5, kLeastExamples = 10;  // examples of each
constexpr double kLeastRatio = 1.5;                       // of the longest to the shortest

// Some of the examples of a split.
class PickedSplit final : public Split {
 public:
  PickedSplit(const Split& all, std::span<const std::int64_t> picks) : all_(all), picks_(picks) {}

  std::int64_t size() const override { return std::ssize(picks_); }
  std::int64_t length(std::int64_t example) const override { return all_.length(pick(example)); }
  std::uint64_t hash() const override { return all_.hash(); }
  Batch batch(const Context& context, std::span<const std::int64_t> examples, std::uint64_t draw) const override {
    std::vector<std::int64_t> picked;
    for (const std::int64_t example : examples) picked.push_back(pick(example));
    return all_.batch(context, picked, draw);
  }

 private:
  std::int64_t pick(std::int64_t example) const { return picks_[static_cast<std::size_t>(example)]; }

  const Split& all_;
  std::span<const std::int64_t> picks_;
};

std::vector<std::int64_t> by_length(const Split& split) {
  std::vector<std::int64_t> order(static_cast<std::size_t>(split.size()));
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](std::int64_t a, std::int64_t b) { return split.length(a) < split.length(b); });
  return order;
}

// Equal lengths stay together.
std::vector<std::span<const std::int64_t>> groups_of(const Split& split, std::span<const std::int64_t> order) {
  std::vector<std::span<const std::int64_t>> groups;
  for (std::size_t begin = 0; begin < order.size();) {
    std::size_t end = std::max(begin + 1, order.size() * (groups.size() + 1) / kGroups);
    while (end < order.size() && split.length(order[end]) == split.length(order[end - 1])) ++end;
    if (order.size() - end < kLeastExamples) end = order.size();
    groups.push_back(order.subspan(begin, end - begin));
    begin = end;
  }
  return groups;
}

void add(const EvalReport& part, EvalReport& all) {
  const auto before = static_cast<double>(all.asked), more = static_cast<double>(part.asked);
  const double share = more / std::max(1.0, before + more);
  all.loss += share * (part.loss - all.loss);
  all.accuracy += share * (part.accuracy - all.accuracy);
  all.deviation += share * (part.deviation - all.deviation);
  all.loss_margin = std::hypot((1.0 - share) * all.loss_margin, share * part.loss_margin);  // of standard errors
  all.examples += part.examples;
  all.asked += part.asked;
  all.seconds += part.seconds;
}

}  // namespace

void LengthScore::fields(FieldVisitor& v) {
  v("from", from, "shortest input, in tokens", at_least(0));
  v("to", to, "longest input", at_least(0));
  v("examples", examples, "of these lengths", at_least(0));
  v("accuracy", accuracy, "share of right answers", between(0, 1));
}

LengthReport evaluate_by_length(Context& context, const Model& model, const Split& split, const EvalOptions& options,
                                const dist::Mesh& mesh) {
  const std::vector<std::int64_t> order = by_length(split);
  const bool differ =
      !order.empty() && Scores{.task = model.config().task}.classes() &&
      static_cast<double>(split.length(order.back())) >= kLeastRatio * static_cast<double>(split.length(order.front()));
  if (!differ || split.size() < kGroups * kLeastExamples) return {evaluate(context, model, split, options, mesh), {}};
  LengthReport report;
  std::int64_t degrees = 0;  // of freedom: the groups' margins are by few batches each, all of them by many
  for (const std::span<const std::int64_t> group : groups_of(split, order)) {
    EvalOptions part = options;
    const std::int64_t before = report.all.examples;
    if (options.progress)
      part.progress = [&, before](std::int64_t done, std::int64_t) { options.progress(before + done, split.size()); };
    EvalReport found = evaluate(context, model, PickedSplit(split, group), part, mesh);
    const std::int64_t batches = (std::ssize(group) + options.batch - 1) / options.batch;
    if (batches > 1) found.loss_margin /= t_quantile(batches - 1);
    degrees += batches - 1;
    add(found, report.all);
    report.groups.push_back({split.length(group.front()), split.length(group.back()), found.examples, found.accuracy});
    if (found.examples < std::ssize(group)) break;  // stopped
  }
  report.all.loss_margin *= degrees > 0 ? t_quantile(degrees) : 0.0;
  return report;
}

}  // namespace fovea
