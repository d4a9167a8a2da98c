#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "dist/mesh.h"
#include "experiment/scale/link.h"
#include "experiment/scale/step_curve.h"

// What a training step takes on ranks that divide it: memory, bytes and time, from the step of one rank.
namespace fovea {

struct Cluster {
  std::int64_t ranks = 1;
  double memory = 0.0;   // bytes of a rank; 0: not said
  double cores = 0.0;    // that all ranks share; 0: each has as many as the measured one
  double threads = 1.0;  // of the measured one
  RankLink link;
};

struct TrainingStep {
  std::int64_t length = 0, batch = 1, accumulation = 1;
};

struct MeshForecast {
  dist::MeshShape shape;
  double memory = 0.0;                   // bytes of a rank: weights, gradients, optimiser, activations, what travels
  double weights = 0.0;                  // of these, weights, gradients and optimiser
  double received = 0.0;                 // bytes that a rank gets from others in a step, at most
  double compute = 0.0, exchange = 0.0;  // seconds; of the exchange what no computation hides
  bool fits = true;

  double seconds() const { return compute + exchange; }
};

// Every division of the ranks that the model, its mechanisms and the batch allow, the best first: those that fit, by
// time. `left_out` says why others are not among them.
struct MeshForecasts {
  std::vector<MeshForecast> meshes;
  std::vector<std::string> left_out;
};
MeshForecasts forecast_meshes(const StepModel& step, const ModelConfig& model, const TrainingStep& wanted,
                              const Cluster& cluster);

}  // namespace fovea
