#pragma once

#include <atomic>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "fovea/model.h"

namespace fovea {

// What a model answers to one example, and what would have been right.
struct Prediction {
  std::int64_t example = 0;
  std::int32_t answer = 0, given = 0;  // classes
  double confidence = 0.0;             // the probability of what was given
};

// The same of a number.
struct NumberPrediction {
  std::int64_t example = 0;
  double answer = 0.0, given = 0.0;
};

// Of the first examples of a split, at most so many, by a model of classes or of numbers.
struct PredictOptions {
  std::int64_t examples = 0;  // 0: all
  std::int64_t batch = 32;
  const std::atomic<bool>* stop = nullptr;
};
std::vector<Prediction> predict(Context& context, const Model& model, const Split& split,
                                const PredictOptions& options);

std::vector<NumberPrediction> predict_numbers(Context& context, const Model& model, const Split& split,
                                              const PredictOptions& options);

struct ClassMetrics {
  double f1 = 0.0, correlation = 0.0;
};

// Matthews' correlation of answers and what was given (of several classes in Gorodkin's form), and F1: of class 1 where
// there are two, else the mean over classes.
ClassMetrics class_metrics(std::span<const Prediction> predictions, std::int64_t classes);

// Of answers and what was given; 0 where one of them is always the same.
struct Correlations {
  double pearson = 0.0, spearman = 0.0;  // of the numbers; of their ranks, equal ones sharing theirs
};
Correlations correlations(std::span<const NumberPrediction> predictions);

// rows: what is right; columns: what was given.
std::vector<std::vector<std::int64_t>> confusion(std::span<const Prediction> predictions, std::int64_t classes);

}  // namespace fovea
