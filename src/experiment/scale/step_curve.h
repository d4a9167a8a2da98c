#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "dist/group.h"
#include "experiment/step_cost.h"
#include "io/field_visitor.h"

// How time and memory of a training step grow with the tokens of a rank, found by measuring shallow models.
namespace fovea {

// What one part of a batch takes: y = fixed + per_token b n + per_pair b n^2, for b sequences of n tokens.
struct CostCurve {
  double fixed = 0.0, per_token = 0.0, per_pair = 0.0;

  double at(double sequences, double length) const { return fixed + varying(sequences, length); }
  double varying(double sequences, double length) const { return sequences * length * (per_token + per_pair * length); }
  void fields(FieldVisitor& v);
};

struct CurvePoint {
  double sequences = 1.0, length = 0.0, value = 0.0;
};
// Through two points, neither term negative: a mechanism below quadratic gets a fixed and a linear term, another one a
// linear and a quadratic.
CostCurve fit_curve(const CurvePoint& shorter, const CurvePoint& longer, bool quadratic);

// A layer, or what a model is besides its layers.
struct PieceCost {
  CostCurve seconds, bytes;  // bytes: of activations, not of weights
  std::int64_t weights = 0;
  void fields(FieldVisitor& v);
};

// A model taken apart.
struct StepModel {
  std::int64_t probed_length = 0, probed_batch = 0;  // of the longest steps that were measured
  PieceCost outside;                                 // embedding, head, loss and their update
  std::map<std::string, PieceCost> layers;           // by mechanism
  std::vector<std::string> order;                    // the model's layers

  std::int64_t weights() const;
  // Of a part of a batch on one rank that has all layers.
  double seconds(double sequences, double length) const;
  double activation_bytes(double sequences, double length) const;
};

struct ProbeOptions {
  std::int64_t length = 1024, batch = 1;  // of the step that is to be foretold
  double seconds = 1.5;                   // of the longest step measured, about
  // All of them measure at once, and the slowest counts: as ranks that share memory and caches will run.
  dist::Group ranks = {};
  std::function<void(const std::string& what)> told = {};
};
// Measures models of one and two layers of each mechanism, at two lengths up to the one wanted.
StepModel probe_steps(const ContextOptions& machine, const ModelConfig& model, const TrainConfig& train,
                      const ProbeOptions& options);

}  // namespace fovea
