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
  cosine,        // half a cosine down to 0 at the last step
  constant,
};
struct FOVEA_EXPORT Schedule {
  ScheduleKind kind = ScheduleKind::one_cycle;
  double peak = 1e-4;
  std::int64_t warmup = 1000;

  // Steps count from 1. `total` is the last step, or the best guess at it when a clock ends the run.
  double rate(std::int64_t step, double total) const;
};

struct AdamWOptions {
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-6;          // outside the root
  double weight_decay = 0.0;  // decoupled, on matrices only
};

// AdamW over all parameters in one pass. Deterministic at any thread count.
class FOVEA_EXPORT AdamW {
 public:
  AdamW(Context& context, std::vector<Parameter> parameters, AdamWOptions options = {});

  // Updates every parameter from its gradient and forgets the gradients. A parameter without one is left alone.
  void step(double rate);
  void zero_grad();

  std::int64_t steps() const { return steps_; }
  void set_steps(std::int64_t steps) { steps_ = steps; }
  const std::vector<Parameter>& parameters() const { return parameters_; }
  // First and second moments, f32, in the order of the parameters: what a checkpoint stores.
  struct Moments {
    Tensor first, second;
  };
  const std::vector<Moments>& moments() const { return moments_; }

 private:
  Context* context_;
  std::vector<Parameter> parameters_;
  std::vector<Moments> moments_;
  AdamWOptions options_;
  std::int64_t steps_ = 0;
};

// Multiplies all gradients by limit / norm when their joint L2 norm is above the limit (0: never). Returns the norm
// from before; a gradient that is not finite makes it so.
FOVEA_EXPORT double clip_norm(Context& context, std::span<const Parameter> parameters, double limit);
// Limits every entry to [-limit, limit] (0: no limit).
FOVEA_EXPORT void clip_value(Context& context, std::span<const Parameter> parameters, double limit);

}  // namespace fovea
