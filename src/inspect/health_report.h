#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

// What was found of gradients and scores while a model trained.
namespace fovea {

class FieldVisitor;

// Of one layer on one sequence. Maxima are over the rows that are looked at: 64 at most, evenly along the sequence.
struct ScoreHealth {
  std::optional<double> max_logit;         // largest score after scale and bias
  std::optional<double> saturated;         // share of softmax rows with more than 0.99 on one of several keys
  std::optional<double> derivative;        // largest |dp/ds| of a row
  std::optional<double> derivative_bound;  // infinite where a score is 0
  std::optional<double> gradient;          // largest |dL/ds|
  std::optional<double> gradient_bound;
  std::optional<double> paper_bound;  // of it, as (15) has it

  void take_worse(const ScoreHealth& other);  // the larger of each
};

// The norms of a part's gradients, before clipping, over the steps that were watched.
struct PartHealth {
  std::string place;  // "model.layers[1]"
  std::int64_t steps = 0;
  double mean = 0.0;
  double relative_deviation = 0.0;  // population deviation over mean: Table 2 of the TransNormer paper
  double largest = 0.0, last = 0.0;

  void fields(FieldVisitor& v);
};

// The worst that was seen of an attention layer, score_health.h tells of which bounds.
struct AttentionHealth {
  std::string place, mechanism;  // "model.layers[1].attention", "norm"
  std::string theory;            // "softmax", "denominator", "norm", "none"
  ScoreHealth worst;

  void fields(FieldVisitor& v);
};

struct HealthReport {
  std::int64_t steps = 0, looked = 0;  // watched; of these, with a look at the scores
  double seconds = 0.0;                // that watching took between steps, beside what it takes inside them
  PartHealth all;                      // of all gradients together
  std::vector<PartHealth> parts;
  std::vector<AttentionHealth> attention;
  std::vector<std::string> warnings;  // each once, with the step it was first given at

  void fields(FieldVisitor& v);
};

}  // namespace fovea
