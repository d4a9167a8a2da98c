#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "fovea/export.h"
#include "fovea/model.h"
#include "fovea/tensor.h"

namespace fovea {

// Learning rate over a run. All warm up linearly and reach `peak` at step `warmup`.
enum class ScheduleKind : std::uint8_t {
  inverse_sqrt,  // peak sqrt(warmup / step)
  one_cycle,     // from peak / 25 up, then linearly down to peak / 250000 at the last step
  cosine,        // half a cosine down to `floor` at the last step
  constant,
  polynomial,  // (share of the steps left)^power, down to `floor` at the last step
  halving,     // half as much after every `period` steps that follow the warm-up
};
struct FOVEA_EXPORT Schedule {
  ScheduleKind kind = ScheduleKind::one_cycle;
  double peak = 1e-4;
  std::int64_t warmup = 1000;
  double power = 1.0;          // of polynomial; 1 is a straight line
  double floor = 0.0;          // the rate at the last step of cosine and polynomial; at most the peak
  std::int64_t period = 1000;  // steps of halving: an epoch in Informer's runs

  // Steps count from 1. `total` is the last step, or the best guess at it when a clock ends the run.
  double rate(std::int64_t step, double total) const;
};

struct AdamWOptions {
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-6;          // outside the root
  double weight_decay = 0.0;  // on matrices only
  // AdamW: the decay shrinks a parameter by itself. Else Adam with L2: it is part of the gradient, and divided by its
  // size like the rest of it.
  bool decoupled = true;
  // Parts whose parameters move at another rate: "classifier=10" ten times as fast, "embedding=0.1" a tenth. Of several
  // that name a parameter the last counts.
  std::vector<std::string> rates = {};
};

// AdamW, or Adam, over all parameters in one pass. Deterministic at any thread count.
class FOVEA_EXPORT AdamW {
 public:
  AdamW(Context& context, std::vector<Parameter> parameters, AdamWOptions options = {});

  // Updates every parameter from its gradient and forgets the gradients. A parameter without one is left alone.
  void step(double rate);
  void zero_grad();

  // The same in three parts, for steps that are enqueued before it is known whether they may be taken: the numbers of
  // the next one, three for each rate; the step with these, f64 where the parameters are, unless `go`, an i64 scalar
  // beside them, is 0; and the count. Gradients are kept.
  std::vector<double> pace(double rate) const;
  void apply(const Context& context, const Tensor& pace, const Tensor& go = {}) const;
  void advance() { ++steps_; }
  std::size_t rates() const { return factors_.size(); }  // different ones

  std::int64_t steps() const { return steps_; }
  void set_steps(std::int64_t steps) { steps_ = steps; }
  const std::vector<Parameter>& parameters() const { return parameters_; }
  // First and second moments, f32, in the order of the parameters: what a checkpoint stores.
  struct Moments {
    Tensor first, second;
  };
  const std::vector<Moments>& moments() const { return moments_; }

 private:
  void apply_to(const Context& context, std::size_t factor, const Tensor& pace, const Tensor& go) const;

  Context* context_;
  std::vector<Parameter> parameters_;
  std::vector<Moments> moments_;
  AdamWOptions options_;
  std::vector<double> factors_ = {1.0};  // of the rate, each once
  std::vector<std::size_t> factor_;      // of each parameter, in factors_
  std::int64_t steps_ = 0;
};

// A part of a model and the factor of its rate: "classifier=10". Refuses what is not one.
struct RateFactor {
  std::string part;
  double factor;
};
FOVEA_EXPORT RateFactor parse_rate(const std::string& text);

// The joint L2 norm of all gradients, an f64 scalar where they are; a gradient that is not finite makes it so.
FOVEA_EXPORT Tensor gradient_norm(Context& context, std::span<const Parameter> parameters);
// Multiplies all gradients by limit / norm where a norm is above the limit (0: never).
FOVEA_EXPORT void clip_to(Context& context, std::span<const Parameter> parameters, const Tensor& norm, double limit);
// Both of them; returns the norm from before.
FOVEA_EXPORT Tensor clip_norm(Context& context, std::span<const Parameter> parameters, double limit);
// Limits every entry to [-limit, limit] (0: no limit). `go` as AdamW has it.
FOVEA_EXPORT void clip_value(Context& context, std::span<const Parameter> parameters, double limit,
                             const Tensor& go = {});

enum class AverageKind : std::uint8_t {
  exponential,  // a += (1 - d) (w - a), d = min(decay, (1 + t) / (10 + t)) at update t
  mean,         // of all steps from `start` on: the last k of a run of n for start = n - k + 1
};
struct WeightAverageOptions {
  AverageKind kind = AverageKind::exponential;
  double decay = 0.999;
  std::int64_t start = 1;  // updates before this one count for nothing
};

// An average over the steps of a run, which often predicts better than the last of them. Starts at the parameters as
// they are.
class FOVEA_EXPORT WeightAverage {
 public:
  WeightAverage(Context& context, std::vector<Parameter> parameters, WeightAverageOptions options = {});

  void update();  // after each step of the optimiser
  // The same in three parts, as AdamW has it: the share of the parameters in the next average, the average, the count.
  double share() const;
  void apply(const Context& context, const Tensor& share, const Tensor& go = {}) const;
  void advance() { ++updates_; }

  // Exchanges the contents of the parameters and of their averages, in place: the model predicts with the average until
  // the next swap. No update in between.
  void swap() noexcept;
  bool swapped() const { return swapped_; }
  void set_swapped(bool swapped) { swapped_ = swapped; }  // of contents that were stored so

  std::int64_t updates() const { return updates_; }
  void set_updates(std::int64_t updates) { updates_ = updates; }
  const std::vector<Parameter>& parameters() const { return parameters_; }
  // In the order of the parameters: what a checkpoint stores.
  const std::vector<Tensor>& averages() const { return averages_; }

 private:
  Context* context_;
  std::vector<Parameter> parameters_;
  std::vector<Tensor> averages_;
  WeightAverageOptions options_;
  std::int64_t updates_ = 0;
  bool swapped_ = false;
};

// The averages stand in for the parameters while one of these lives.
class FOVEA_EXPORT WithAverage {
 public:
  explicit WithAverage(WeightAverage& average) : average_(&average) { average_->swap(); }
  ~WithAverage() { average_->swap(); }
  WithAverage(const WithAverage&) = delete;
  WithAverage& operator=(const WithAverage&) = delete;

 private:
  WeightAverage* average_;
};

// Loss scaling for f16: the loss is multiplied by a large power of two, so that small gradients do not vanish on their
// way, and the gradients of the parameters, which are f32, are divided by it again.
class FOVEA_EXPORT LossScaler {
 public:
  struct State {
    double scale = 65536.0;
    std::int64_t clean = 0;    // steps since the scale last changed
    std::int64_t skipped = 0;  // in all
  };
  static constexpr std::int64_t kCleanSteps = 2000;  // before the scale is doubled

  double scale() const { return state_.scale; }
  const State& state() const { return state_; }
  void set_state(const State& state);

  // Divides all gradients by the scale: an f64 scalar where they are, 1 if all are finite. Else it is 0: no step must
  // be taken, and the gradients are to be forgotten.
  Tensor unscale(Context& context, std::span<const Parameter> parameters) const;
  // The same with 1 / scale as an f64 scalar where they are.
  static Tensor unscale(Context& context, std::span<const Parameter> parameters, const Tensor& factor);
  // Moves the scale on after each step. Gradients that were not finite halve it; fails when it falls so low that
  // something else must be wrong.
  void adapt(bool finite);

 private:
  State state_;
};

}  // namespace fovea
