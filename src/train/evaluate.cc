#include <algorithm>
#include <chrono>
#include <cmath>

#include "core/statistics.h"
#include "data/prefetch.h"
#include "fovea/train.h"
#include "models/mesh.h"
#include "models/weight_shares.h"
#include "ops/numbers.h"
#include "train/evaluation.h"
#include "train/recorded_steps.h"

namespace fovea {
namespace {

constexpr std::int64_t kTogether = 4;  // batches of each stage: a fifth of the time is spent waiting for the first
constexpr std::size_t kAhead = 2;      // batches that are made while another device computes

// What became of each batch that this rank took: examples, and the numbers that were collected. -1: not done.
class EvalRows {
 public:
  static constexpr std::size_t kNumbers = 4;

  EvalRows(std::int64_t batches, std::int64_t ranks)
      : batches_(batches),
        ranks_(ranks),
        rows_(static_cast<std::size_t>((batches + ranks - 1) / ranks) * kColumns, -1.0) {}

  void add(std::int64_t examples, std::span<const double> numbers) {
    rows_[at_] = static_cast<double>(examples);
    std::copy_n(numbers.begin(), kNumbers, rows_.begin() + static_cast<std::ptrdiff_t>(at_) + 1);
    at_ += kColumns;
  }

  // Adds up those of all ranks in the order of the batches, up to the first that was not done.
  void sum(const dist::Group& ranks, const Pipeline& pipeline, EvalReport& report) const {
    std::vector<double> own = pipeline.sum(rows_);
    for (std::size_t i = 0; i < own.size(); i += kColumns) own[i] = rows_[i];  // every stage had the same examples
    const std::vector<double> all = ranks.all_gather(own);
    std::vector<const double*> done;
    for (std::int64_t b = 0; b < batches_; ++b) {
      const double* row =
          &all[static_cast<std::size_t>(b % ranks_) * rows_.size() + static_cast<std::size_t>(b / ranks_) * kColumns];
      if (row[0] < 0.0) break;
      done.push_back(row);
      report.examples += static_cast<std::int64_t>(row[0]);
      report.loss += row[1] * row[2];
      report.accuracy += row[3];
      report.deviation += row[4];
      report.asked += static_cast<std::int64_t>(row[2]);
    }
    const double count = std::max(1.0, static_cast<double>(report.asked));
    report.loss /= count;
    report.accuracy /= count;
    report.deviation /= count;
    report.loss_margin = loss_margin(done, report.loss, count);
  }

 private:
  // Of a mean over batches of unequal sizes, by how far each of them is from it.
  static double loss_margin(std::span<const double* const> rows, double loss, double asked) {
    if (rows.size() < 2) return 0.0;
    const auto n = static_cast<double>(rows.size());
    double squares = 0.0;
    for (const double* row : rows) squares += std::pow(row[2] * (row[1] - loss), 2);
    return t_quantile(static_cast<std::int64_t>(rows.size()) - 1) * std::sqrt(n / (n - 1.0) * squares) / asked;
  }

  static constexpr std::size_t kColumns = kNumbers + 1;

  std::int64_t batches_, ranks_;
  std::vector<double> rows_;
  std::size_t at_ = 0;
};

// Of rows of so many numbers.
std::vector<double> sum_of_rows(const std::vector<double>& numbers, std::size_t columns) {
  std::vector<double> sums(columns, 0.0);
  for (std::size_t i = 0; i < numbers.size(); ++i) sums[i % columns] += numbers[i];
  return sums;
}

}  // namespace

bool EvalReport::better_than(const EvalReport& other, Task task) const {
  if (other.step == 0) return true;
  if (task == Task::classify || task == Task::match || task == Task::vision) return accuracy > other.accuracy;
  return loss < other.loss;
}

EvalReport evaluate(Context& context, const Model& model, const Split& split, const EvalOptions& options) {
  return evaluate(context, model, split, options, dist::Mesh());
}

EvalReport evaluate(Context& context, const Model& model, const Split& split, const EvalOptions& options,
                    const dist::Mesh& mesh) {
  const auto start = std::chrono::steady_clock::now();
  EvalReport report;
  if (split.size() == 0) return report;
  const Pipeline& pipeline = pipeline_of(model);
  const WholeWeights whole(model);  // ranks may have more batches than others
  const LossOptions plain;
  const auto stopped = [&] {  // those who share an example stop together
    const double own = options.stop != nullptr && options.stop->load() ? 1.0 : 0.0;
    const std::vector<double> all = mesh.same_examples.all_gather(std::span(&own, 1));
    const double any = *std::max_element(all.begin(), all.end());
    return pipeline.sum(std::span(&any, 1)).front() > 0.0;
  };
  RecordedSteps steps(
      context,
      [&](Context& c, std::span<const Batch> parts) {
        Tape tape(c, {.record = false});
        std::vector<Tensor> numbers;
        for (const std::int64_t chunk : pipeline.chunks()) {
          const Loss loss = forward_chunk(model, tape, parts.front(), &plain, chunk).loss;
          numbers.insert(numbers.end(), {loss.value.value(), loss.asked, loss.correct, loss.deviation});
        }
        return collect_numbers(c, std::move(numbers));
      },
      options.graphs && mesh.all.size() == 1 ? RecordedSteps::When::where_it_pays : RecordedSteps::When::never);
  const Batches batches(split, {.batch_size = options.batch, .shuffle = false, .limit = options.examples});
  const std::int64_t ranks = mesh.data.size(), all = batches.batches_per_epoch();
  Prefetcher feed(context, split, batches, context.device() == Device::cpu ? 0 : kAhead, {ranks, mesh.data.rank(), 1});
  EvalRows rows(all, ranks);
  std::int64_t done = 0;
  // Ranks that have the layers in stages meet after several batches, and each has another one meanwhile.
  const std::int64_t together = pipeline.divides() ? kTogether * pipeline.stage().ranks : 1;
  for (std::int64_t i = mesh.data.rank(), n = 0; i < all; i += ranks, ++n) {
    if (n % together == 0) {
      pipeline.settle();
      if (stopped()) break;
    }
    const Prefetcher::Item item = feed.next();
    const std::vector<double> numbers = sum_of_rows(steps.run(std::span(&item.batch, 1), 0), EvalRows::kNumbers);
    rows.add(item.batch.size(), numbers);
    done += item.batch.size();
    if (options.progress) options.progress(std::min(done * ranks, batches.size()), batches.size());
  }
  pipeline.settle();
  rows.sum(mesh.data, pipeline, report);
  report.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return report;
}

}  // namespace fovea
