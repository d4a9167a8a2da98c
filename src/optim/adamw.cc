#include <cmath>

#include "fovea/optim.h"
#include "fovea/zones.h"
#include "optim/pieces.h"
#include "optim/update_cpu.h"

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

void AdamW::step(double rate) {
  const ZoneTimer timer(context_->zones(), Zone::optimizer);
  ++steps_;
  const auto t = static_cast<double>(steps_);
  cpu::AdamWStep numbers{.beta1 = options_.beta1,
                         .beta2 = options_.beta2,
                         .eps = options_.eps,
                         .shrink = 1.0,
                         .pull = 0.0,
                         .step_size = rate / (1.0 - std::pow(options_.beta1, t)),
                         .root_size = 1.0 / std::sqrt(1.0 - std::pow(options_.beta2, t))};
  const double decayed = 1.0 - rate * options_.weight_decay;
  for_pieces(*context_, parameters_, cut_into_pieces(parameters_), [&]<class T>(std::size_t, const Piece& piece) {
    const Parameter& p = parameters_[piece.parameter];
    const Moments& m = moments_[piece.parameter];
    cpu::AdamWStep own = numbers;
    if (p.decay && options_.decoupled) own.shrink = decayed;
    if (p.decay && !options_.decoupled) own.pull = options_.weight_decay;
    const std::int64_t i = piece.begin;
    cpu::adamw_update(own, cpu::AdamWPiece<T>{p.var.value().data<T>() + i, p.var.grad().data<T>() + i,
                                              m.first.data<T>() + i, m.second.data<T>() + i, piece.end - i});
  });
  zero_grad();
}

void AdamW::zero_grad() {
  for (const Parameter& p : parameters_) p.var.slot()->grad = Tensor();
}

}  // namespace fovea
