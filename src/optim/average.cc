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
  apply(*context_, Tensor::from<double>(*context_, {}, std::vector{share()}));
  advance();
}

double WeightAverage::share() const {
  if (swapped_) fail(ErrorCode::usage, "the average stands in for the parameters: no update before the next swap");
  const auto t = static_cast<double>(std::max<std::int64_t>(0, updates_ - options_.start + 2));  // that count
  if (t <= 0.0) return 1.0;  // before the start the average follows the parameters
  return options_.kind == AverageKind::mean ? 1.0 / t : 1.0 - std::min(options_.decay, (1.0 + t) / (10.0 + t));
}

void WeightAverage::apply(const Context& context, const Tensor& share, const Tensor& go) const {
  const ZoneTimer timer(context.zones(), Zone::optimizer);
  const kernels::AverageUpdate io{share, averages_, values_of(parameters_), go};
  visit_device(context, io, [&]<Device D>() { kernels::move_averages<D>(context, io); });
}

void WeightAverage::swap() noexcept {
  const ZoneTimer timer(context_->zones(), Zone::optimizer);
  const kernels::Exchange io{values_of(parameters_), averages_};
  visit_device(*context_, io, [&]<Device D>() { kernels::exchange<D>(*context_, io); });
  swapped_ = !swapped_;
}

}  // namespace fovea
