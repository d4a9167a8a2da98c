#include <cmath>

#include "core/visit_device.h"
#include "fovea/optim.h"
#include "fovea/zones.h"
#include "optim/gradients.h"
#include "optim/update_kernels.h"

namespace fovea {
namespace {

constexpr double kLeast = 0x1p-14;  // with this the largest f16 is 4: no gradient needs it
constexpr double kMost = 0x1p24;

}  // namespace

void LossScaler::set_state(const State& state) {
  int exponent = 0;
  const bool power_of_two = std::frexp(state.scale, &exponent) == 0.5;  // else dividing by it would round
  if (!power_of_two || state.scale < kLeast || state.scale > kMost || state.clean < 0 || state.skipped < 0)
    fail(ErrorCode::bad_input,
         "a loss scale of " + std::to_string(state.scale) + " after " + std::to_string(state.clean) + " clean and " +
             std::to_string(state.skipped) + " skipped steps",
         "scale", "a power of two from 2^-14 to 2^24");
  state_ = state;
}

Tensor LossScaler::unscale(Context& context, std::span<const Parameter> parameters) const {
  return unscale(context, parameters, Tensor::from<double>(context, {}, std::vector{1.0 / state_.scale}));
}

Tensor LossScaler::unscale(Context& context, std::span<const Parameter> parameters, const Tensor& factor) {
  const ZoneTimer timer(context.zones(), Zone::optimizer);
  const kernels::Unscale io{gradients_of(parameters), factor, Tensor::empty(context, {}, DType::f64)};
  visit_device(context, io, [&]<Device D>() { kernels::unscale<D>(context, io); });
  return io.finite;
}

void LossScaler::adapt(bool finite) {
  if (finite) {
    if (++state_.clean >= kCleanSteps) state_ = {std::min(2.0 * state_.scale, kMost), 0, state_.skipped};
    return;
  }
  state_ = {0.5 * state_.scale, 0, state_.skipped + 1};
  if (state_.scale < kLeast)
    fail(ErrorCode::diverged, "gradients are not finite at any loss scale", {},
         "a lower learning rate, a longer warm-up, or bf16, which needs no loss scaling");
}

}  // namespace fovea
