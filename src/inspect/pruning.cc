#include <algorithm>
#include <cmath>
#include <numeric>

#include "fovea/inspect.h"
#include "inspect/without_heads.h"

namespace fovea {
namespace {

// The head whose loss is felt least comes first; the last one of a layer stays.
std::vector<std::size_t> order_of(std::span<const HeadImportance> heads) {
  std::vector<std::size_t> all(heads.size()), order;
  std::iota(all.begin(), all.end(), std::size_t{0});
  const bool measured = std::all_of(heads.begin(), heads.end(),
                                    [](const HeadImportance& head) { return std::isfinite(head.by_ablation); });
  const auto worth = [&](std::size_t i) { return measured ? heads[i].by_ablation : heads[i].by_gradient; };
  std::stable_sort(all.begin(), all.end(), [&](std::size_t a, std::size_t b) { return worth(a) < worth(b); });
  std::vector<std::int64_t> left;
  for (const HeadImportance& head : heads) {
    left.resize(std::max(left.size(), static_cast<std::size_t>(head.layer) + 1), 0);
    ++left[static_cast<std::size_t>(head.layer)];
  }
  for (const std::size_t i : all)
    if (std::int64_t& here = left[static_cast<std::size_t>(heads[i].layer)]; here > 1) {
      --here;
      order.push_back(i);
    }
  return order;
}

PruningStep measure(Context& context, const Model& model, const Batch& batch) {
  Tape tape(context, {.record = false});
  const Loss::Numbers loss = model.loss(tape, batch).read(context);
  return {.removed = 0, .loss = loss.value, .accuracy = loss.asked > 0.0 ? loss.correct / loss.asked : 0.0};
}

}  // namespace

HeadPruning head_pruning(Context& context, const Model& model, const Batch& batch,
                         std::span<const HeadImportance> heads, std::int64_t points) {
  if (points < 1) fail(ErrorCode::usage, "a curve needs at least one point", "points");
  HeadPruning out;
  const std::vector<std::size_t> order = order_of(heads);
  for (const std::size_t i : order) out.order.push_back(static_cast<std::int64_t>(i));
  const auto all = static_cast<std::int64_t>(order.size()), steps = std::min(points, std::max<std::int64_t>(1, all));
  for (std::int64_t step = 0; step <= (all > 0 ? steps : 0); ++step) {
    const std::int64_t removed = all > 0 ? (step * all + steps / 2) / steps : 0;
    std::vector<inspection::HeadPlace> gone;
    for (std::int64_t k = 0; k < removed; ++k) {
      const HeadImportance& head = heads[order[static_cast<std::size_t>(k)]];
      gone.push_back({static_cast<std::size_t>(head.layer), head.head});
    }
    const inspection::WithoutHeads without(std::move(gone));
    out.steps.push_back(measure(context, model, batch));
    out.steps.back().removed = removed;
  }
  return out;
}

}  // namespace fovea
