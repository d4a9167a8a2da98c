#include "train/evaluate.h"

#include <algorithm>
#include <chrono>

#include "data/batches.h"
#include "fovea/train.h"

namespace fovea {

std::int64_t count_correct(const Tensor& logits, const Tensor& labels) {
  const std::vector<float> values = logits.to_vector<float>();
  const std::vector<std::int32_t> wanted = labels.to_vector<std::int32_t>();
  const std::int64_t classes = logits.dim(1);
  std::int64_t correct = 0;
  for (std::size_t row = 0; row < wanted.size(); ++row) {
    const auto begin = values.begin() + static_cast<std::int64_t>(row) * classes;
    correct += std::max_element(begin, begin + classes) - begin == wanted[row];
  }
  return correct;
}

EvalReport evaluate(Context& context, const Model& model, const std::vector<Example>& examples,
                    const EvalOptions& options) {
  const auto start = std::chrono::steady_clock::now();
  std::span<const Example> set = examples;
  if (options.examples > 0) set = set.first(std::min(set.size(), static_cast<std::size_t>(options.examples)));
  EvalReport report;
  if (set.empty()) return report;
  const auto stopped = [&] { return options.stop != nullptr && options.stop->load(); };
  double loss = 0.0;
  std::int64_t correct = 0;
  Batches batches(set, {.batch_size = options.batch, .shuffle = false});
  while (!batches.epoch_done() && !stopped()) {
    const Batch batch = batches.next(context);
    Tape tape(context, {.record = false});
    const Var logits = model.forward(tape, batch.ids, batch.sequences);
    loss += cross_entropy(tape, logits, batch.labels).value().item() * static_cast<double>(batch.size());
    correct += count_correct(logits.value(), batch.labels);
  }
  report.examples = batches.position().used;
  const double count = std::max(1.0, static_cast<double>(report.examples));
  report.loss = loss / count;
  report.accuracy = static_cast<double>(correct) / count;
  report.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return report;
}

}  // namespace fovea
