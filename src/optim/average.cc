#include <algorithm>

#include "fovea/optim.h"
#include "fovea/zones.h"
#include "optim/pieces.h"
#include "optim/update_cpu.h"

namespace fovea {

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
  for_pieces(*context_, parameters_, cut_all(parameters_), [&]<class T>(std::size_t, const Piece& piece) {
    const T* value = parameters_[piece.parameter].var.value().template data<T>();
    T* average = averages_[piece.parameter].template data<T>();
    const std::int64_t i = piece.begin, count = piece.end - i;
    if (share == 1.0)
      std::copy_n(value + i, count, average + i);  // a + (w - a) is not always w
    else
      cpu::average_update(cpu::AveragePiece<T>{average + i, value + i, count}, share);
  });
}

// On one thread: parallel loops may be stopped half way, and this must not be.
void WeightAverage::swap() noexcept {
  const ZoneTimer timer(context_->zones(), Zone::optimizer);
  for (std::size_t p = 0; p < parameters_.size(); ++p) {
    auto* value = static_cast<std::byte*>(parameters_[p].var.value().raw());
    std::swap_ranges(value, value + averages_[p].bytes(), static_cast<std::byte*>(averages_[p].raw()));
  }
  swapped_ = !swapped_;
}

}  // namespace fovea
