#include <algorithm>

#include "core/visit_device.h"
#include "fovea/optim.h"
#include "fovea/zones.h"
#include "optim/gradients.h"
#include "optim/update_kernels.h"

namespace fovea {
namespace {

std::vector<Tensor> values_of(std::span<const Parameter> parameters) {
  std::vector<Tensor> values;
  for (const Parameter& p : parameters) values.push_back(p.var.value());
  return values;
}

}  // namespace

WeightAverage::WeightAverage(Context& context, std::vector<Parameter> parameters, WeightAverageOptions options)
    : context_(&context), parameters_(std::move(parameters)), options_(options) {
  if (!(options.decay >= 0.0 && options.decay < 1.0))
    fail(ErrorCode::usage, "a decay of " + std::to_string(options.decay) + " is outside [0, 1)", "decay");
  std::erase_if(parameters_, [](const Parameter& p) { return !p.trained(); });
  for (const Parameter& p : parameters_) {
    check_updatable(p);
    averages_.push_back(p.var.value().clone(context, Lifetime::persistent));
  }
}

void WeightAverage::update() {
  if (swapped_) fail(ErrorCode::usage, "the average stands in for the parameters: no update before the next swap");
  const ZoneTimer timer(context_->zones(), Zone::optimizer);
  ++updates_;
  const auto t = static_cast<double>(std::max<std::int64_t>(0, updates_ - options_.start + 1));  // that count
  double share = 1.0;  // before the start the average follows the parameters
  if (t > 0.0)
    share = options_.kind == AverageKind::mean ? 1.0 / t : 1.0 - std::min(options_.decay, (1.0 + t) / (10.0 + t));
  const kernels::AverageUpdate io{share, averages_, values_of(parameters_)};
  visit_device(*context_, io, [&]<Device D>() { kernels::move_averages<D>(*context_, io); });
}

void WeightAverage::swap() noexcept {
  const ZoneTimer timer(context_->zones(), Zone::optimizer);
  const kernels::Exchange io{values_of(parameters_), averages_};
  visit_device(*context_, io, [&]<Device D>() { kernels::exchange<D>(*context_, io); });
  swapped_ = !swapped_;
}

}  // namespace fovea
