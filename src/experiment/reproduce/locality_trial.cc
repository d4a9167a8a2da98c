#include <cmath>

#include "data/batches.h"
#include "experiment/reproduce/trials.h"
#include "fovea/inspect.h"

// How far from itself a token attends, in the first layer of a trained model.
namespace fovea {
namespace {

// The mean over the heads of the mass on this share of the keys, nearest first.
double mass_near(const LayerRecord& layer, double share) {
  double sum = 0.0;
  for (const HeadRecord& head : layer.heads) {
    const auto points = static_cast<double>(head.curve.size());
    sum += head.curve.at(static_cast<std::size_t>(std::llround(share * points)) - 1);
  }
  return sum / static_cast<double>(layer.heads.size());
}

}  // namespace

Outcome run_locality(const TrialCall& call) {
  Outcome outcome = run_training(call);
  const RunSettings settings = call.plan.settings(call.cell);
  const auto data = call.data.load(settings, {}, call.environment);
  ContextOptions machine = call.environment.machine;
  machine.seed = settings.train.seed;
  Context context(machine);
  const Model model = load_model(context, (Path(settings.train.out) / "best").string(), DType::f32);
  constexpr std::int64_t kExamples = 8;
  constexpr int kShares[] = {5, 10, 20, 40, 60, 80};
  double sums[std::size(kShares)] = {}, rows = 0.0;
  Batches batches(*data->validation, {.batch_size = 1, .shuffle = false, .limit = kExamples});
  while (!batches.epoch_done()) {
    const InspectRecord record = inspect(context, model, batches.next(context), {.layers = {0}, .cells = 0});
    const LayerRecord& first = record.layers.front();
    if (first.heads.empty()) fail(ErrorCode::unsupported, first.map.text, first.place);
    const auto n = static_cast<double>(first.n_q);
    for (std::size_t i = 0; i < std::size(kShares); ++i) sums[i] += n * mass_near(first, 0.01 * kShares[i]);
    rows += n;
  }
  for (std::size_t i = 0; i < std::size(kShares); ++i)
    outcome.set("mass_" + std::to_string(kShares[i]), sums[i] / rows);
  return outcome;
}

}  // namespace fovea
