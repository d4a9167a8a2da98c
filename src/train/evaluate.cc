#include <algorithm>
#include <chrono>

#include "data/prefetch.h"
#include "fovea/train.h"
#include "ops/numbers.h"
#include "train/recorded_steps.h"

namespace fovea {
namespace {

constexpr std::size_t kAhead = 2;  // batches that are made while another device computes

}  // namespace

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
  RecordedSteps steps(
      context,
      [&](Context& c, std::span<const Batch> parts) {
        Tape tape(c, {.record = false});
        const Loss loss = model.loss(tape, parts.front());
        return collect_numbers(c, {loss.value.value(), loss.asked, loss.correct, loss.deviation});
      },
      options.graphs ? RecordedSteps::When::where_it_pays : RecordedSteps::When::never);
  const Batches batches(split, {.batch_size = options.batch, .shuffle = false, .limit = options.examples});
  Prefetcher feed(context, split, batches, context.device() == Device::cpu ? 0 : kAhead);
  while (report.examples < batches.size() && !stopped()) {
    const Prefetcher::Item item = feed.next();
    const std::vector<double> numbers = steps.run(std::span(&item.batch, 1), 0);
    report.examples = item.after.used;
    report.loss += numbers[0] * numbers[1];
    report.accuracy += numbers[2];
    report.deviation += numbers[3];
    report.asked += static_cast<std::int64_t>(numbers[1]);
    if (options.progress) options.progress(report.examples, batches.size());
  }
  const double count = std::max(1.0, static_cast<double>(report.asked));
  report.loss /= count;
  report.accuracy /= count;
  report.deviation /= count;
  report.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return report;
}

}  // namespace fovea
