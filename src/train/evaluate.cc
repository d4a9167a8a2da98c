#include <algorithm>
#include <chrono>

#include "data/batches.h"
#include "fovea/train.h"

namespace fovea {

bool EvalReport::better_than(const EvalReport& other, Task task) const {
  if (other.step == 0) return true;
  if (task == Task::classify || task == Task::match || task == Task::vision) return accuracy > other.accuracy;
  return loss < other.loss;
}

EvalReport evaluate(Context& context, const Model& model, const Split& split, const EvalOptions& options) {
  const auto start = std::chrono::steady_clock::now();
  EvalReport report;
  if (split.size() == 0) return report;
  const auto stopped = [&] { return options.stop != nullptr && options.stop->load(); };
  Batches batches(split, {.batch_size = options.batch, .shuffle = false, .limit = options.examples});
  while (!batches.epoch_done() && !stopped()) {
    const Batch batch = batches.next(context);
    Tape tape(context, {.record = false});
    const Loss::Numbers loss = model.loss(tape, batch).read(context);
    report.loss += loss.value * loss.asked;
    report.accuracy += loss.correct;
    report.deviation += loss.deviation;
    report.asked += static_cast<std::int64_t>(loss.asked);
    if (options.progress) options.progress(batches.position().used, batches.size());
  }
  report.examples = batches.position().used;
  const double count = std::max(1.0, static_cast<double>(report.asked));
  report.loss /= count;
  report.accuracy /= count;
  report.deviation /= count;
  report.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return report;
}

}  // namespace fovea
