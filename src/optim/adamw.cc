#include <cmath>

#include "core/visit_device.h"
#include "fovea/optim.h"
#include "fovea/zones.h"
#include "optim/gradients.h"
#include "optim/update_kernels.h"

namespace fovea {

AdamW::AdamW(Context& context, std::vector<Parameter> parameters, AdamWOptions options)
    : context_(&context), parameters_(std::move(parameters)), options_(options) {
  std::erase_if(parameters_, [](const Parameter& p) { return !p.trained(); });
  for (const Parameter& p : parameters_) {
    check_updatable(p);
    const Tensor& value = p.var.value();
    const auto zeros = [&] { return Tensor::zeros(context, value.shape(), value.dtype(), Lifetime::persistent); };
    moments_.push_back({zeros(), zeros()});
  }
}

std::vector<double> AdamW::pace(double rate) const {
  const auto t = static_cast<double>(steps_ + 1);
  return {rate / (1.0 - std::pow(options_.beta1, t)), 1.0 / std::sqrt(1.0 - std::pow(options_.beta2, t)), rate};
}

void AdamW::step(double rate) {
  apply(*context_, Tensor::from<double>(*context_, {3}, pace(rate)));
  advance();
  zero_grad();
}

void AdamW::apply(const Context& context, const Tensor& pace, const Tensor& go) const {
  const ZoneTimer timer(context.zones(), Zone::optimizer);
  kernels::AdamWUpdate io{{.beta1 = options_.beta1, .beta2 = options_.beta2, .eps = options_.eps}, {}, pace, go};
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    const Parameter& p = parameters_[i];
    if (!p.var.grad().defined()) continue;
    const double decay = p.decay ? options_.weight_decay : 0.0;
    io.parameters.push_back({p.var.value(), p.var.grad(), moments_[i].first, moments_[i].second,
                             options_.decoupled ? decay : 0.0, options_.decoupled ? 0.0 : decay});
  }
  visit_device(context, io, [&]<Device D>() { kernels::adamw<D>(context, io); });
}

void AdamW::zero_grad() {
  for (const Parameter& p : parameters_) p.var.slot()->grad = Tensor();
}

}  // namespace fovea
