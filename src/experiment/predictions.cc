#include "experiment/predictions.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "data/batches.h"

namespace fovea {
namespace {

// The largest of one row of logits, and its share of the softmax.
Prediction read_row(std::span<const float> logits) {
  const auto best = std::max_element(logits.begin(), logits.end());
  double total = 0.0;
  for (const float logit : logits) total += std::exp(static_cast<double>(logit) - *best);
  Prediction prediction;
  prediction.given = static_cast<std::int32_t>(best - logits.begin());
  prediction.confidence = 1.0 / total;
  return prediction;
}

// Calls done(batch, what the model makes of it) for one batch after the other.
template <class Done>
void for_batches(Context& context, const Model& model, const Split& split, const PredictOptions& options,
                 const Done& done) {
  const std::int64_t count = options.examples > 0 ? std::min(options.examples, split.size()) : split.size();
  for (std::int64_t first = 0; first < count; first += options.batch) {
    if (options.stop != nullptr && options.stop->load()) break;
    std::vector<std::int64_t> picks(static_cast<std::size_t>(std::min(options.batch, count - first)));
    std::iota(picks.begin(), picks.end(), first);
    const Batch batch = make_batch(context, split, picks);
    Tape tape(context, {.record = false});
    done(batch, model.forward(tape, batch).value());
  }
}

double pearson(std::span<const double> a, std::span<const double> b) {
  const auto n = static_cast<double>(a.size());
  const double mean_a = std::accumulate(a.begin(), a.end(), 0.0) / n;
  const double mean_b = std::accumulate(b.begin(), b.end(), 0.0) / n;
  double ab = 0.0, aa = 0.0, bb = 0.0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    ab += (a[i] - mean_a) * (b[i] - mean_b);
    aa += (a[i] - mean_a) * (a[i] - mean_a);
    bb += (b[i] - mean_b) * (b[i] - mean_b);
  }
  return aa > 0.0 && bb > 0.0 ? ab / std::sqrt(aa * bb) : 0.0;
}

// The place of each among all in order; equal ones have the mean of theirs.
std::vector<double> ranks_of(std::span<const double> numbers) {
  std::vector<std::size_t> order(numbers.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return numbers[a] < numbers[b]; });
  std::vector<double> ranks(numbers.size());
  for (std::size_t begin = 0, end = 0; begin < order.size(); begin = end) {
    while (end < order.size() && numbers[order[end]] == numbers[order[begin]]) ++end;
    for (std::size_t i = begin; i < end; ++i) ranks[order[i]] = 0.5 * static_cast<double>(begin + end - 1);
  }
  return ranks;
}

double f1_of(std::int64_t hits, std::int64_t given, std::int64_t right) {
  return given + right == 0 ? 0.0 : 2.0 * static_cast<double>(hits) / static_cast<double>(given + right);
}

}  // namespace

std::vector<Prediction> predict(Context& context, const Model& model, const Split& split,
                                const PredictOptions& options) {
  std::vector<Prediction> predictions;
  for_batches(context, model, split, options, [&](const Batch& batch, const Tensor& logits) {
    const std::vector<float> numbers = logits.to_vector<float>();
    const std::vector<std::int32_t> answers = batch.targets.to_vector<std::int32_t>();
    const auto classes = static_cast<std::size_t>(logits.dim(1));
    for (std::size_t i = 0; i < answers.size(); ++i) {
      Prediction& prediction = predictions.emplace_back(read_row(std::span(numbers).subspan(i * classes, classes)));
      prediction.example = batch.examples[i];
      prediction.answer = answers[i];
    }
  });
  return predictions;
}

std::vector<NumberPrediction> predict_numbers(Context& context, const Model& model, const Split& split,
                                              const PredictOptions& options) {
  std::vector<NumberPrediction> predictions;
  for_batches(context, model, split, options, [&](const Batch& batch, const Tensor& guesses) {
    const std::vector<float> given = guesses.to_vector<float>(), answers = batch.targets.to_vector<float>();
    for (std::size_t i = 0; i < answers.size(); ++i) predictions.push_back({batch.examples[i], answers[i], given[i]});
  });
  return predictions;
}

Correlations correlations(std::span<const NumberPrediction> predictions) {
  std::vector<double> answers, given;
  for (const NumberPrediction& p : predictions) {
    answers.push_back(p.answer);
    given.push_back(p.given);
  }
  return {pearson(answers, given), pearson(ranks_of(answers), ranks_of(given))};
}

std::vector<std::vector<std::int64_t>> confusion(std::span<const Prediction> predictions, std::int64_t classes) {
  const auto size = static_cast<std::size_t>(classes);
  std::vector<std::vector<std::int64_t>> counts(size, std::vector<std::int64_t>(size, 0));
  for (const Prediction& p : predictions)
    ++counts[static_cast<std::size_t>(p.answer)][static_cast<std::size_t>(p.given)];
  return counts;
}

ClassMetrics class_metrics(std::span<const Prediction> predictions, std::int64_t classes) {
  const std::vector<std::vector<std::int64_t>> counts = confusion(predictions, classes);
  const std::size_t size = counts.size();
  std::vector<std::int64_t> right(size, 0), given(size, 0);
  std::int64_t hits = 0;
  for (std::size_t a = 0; a < size; ++a) {
    hits += counts[a][a];
    for (std::size_t g = 0; g < size; ++g) {
      right[a] += counts[a][g];
      given[g] += counts[a][g];
    }
  }
  ClassMetrics metrics;
  double sum = 0.0, cross = 0.0, right_squares = 0.0, given_squares = 0.0;
  for (std::size_t c = 0; c < size; ++c) {
    sum += f1_of(counts[c][c], given[c], right[c]);
    cross += static_cast<double>(right[c]) * static_cast<double>(given[c]);
    right_squares += static_cast<double>(right[c]) * static_cast<double>(right[c]);
    given_squares += static_cast<double>(given[c]) * static_cast<double>(given[c]);
  }
  metrics.f1 = size == 2 ? f1_of(counts[1][1], given[1], right[1]) : sum / static_cast<double>(size);
  const auto n = static_cast<double>(predictions.size());
  const double spread = std::sqrt((n * n - right_squares) * (n * n - given_squares));
  metrics.correlation = spread > 0.0 ? (static_cast<double>(hits) * n - cross) / spread : 0.0;
  return metrics;
}

}  // namespace fovea
