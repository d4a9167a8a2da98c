#include "nn/experts.h"

#include "core/wide.h"
#include "nn/divided.h"
#include "parallel/rows.h"

namespace fovea::nn {
namespace {

constexpr double kJitter = 0.01;
constexpr double kEvaluationCapacity = 2.0;  // when nothing is learned, fewer tokens should pass by

}  // namespace

ExpertLayer::ExpertLayer(const Scope& scope, const StackConfig& config)
    : capacity_(config.expert_capacity),
      balance_(config.expert_balance),
      ranks_(scope.ranks()),
      router_(scope / "router", config.width, config.experts, Linear::Options{.bias = false}) {
  for (std::int64_t e = 0; e < config.experts; ++e) experts_.emplace_back(scope.unshared() / "experts" / e, config);
}

ExpertLayer::Result ExpertLayer::operator()(Tape& tape, const Var& x, const Layout& layout) const {
  const Result all = over_all(tape, whole(tape, x, layout), whole_rows(layout));
  if (!all.penalty.defined()) return {own(tape, all.output, layout), {}};
  return {own(tape, all.output, layout), divided::alike(tape, alike(tape, all.penalty, layout), ranks_)};
}

// x (b, n, width) has all rows: places with an expert are given away in their order.
ExpertLayer::Result ExpertLayer::over_all(Tape& tape, const Var& x, const Sequences& sequences) const {
  const std::int64_t rows = x.dim(0) * x.dim(1), width = x.dim(2);
  const Var logits = router_(tape, jitter(tape, cast(tape, x, wide_type(x.dtype())), kJitter));
  const double factor = tape.training() ? capacity_ : std::max(capacity_, kEvaluationCapacity);
  const Routing routing =
      route_top1(tape, logits, {.capacity = expert_capacity(rows, std::ssize(experts_), factor), .rows = sequences});
  const Var mine = to_experts(tape, reshape(tape, x, {rows, width}), routing);
  const Var all = FeedForwardLayer::each(tape, experts_, mine, routing.begin);
  const Var spread = scatter_rows(tape, all, routing.tokens, rows, routing.gates);
  return {reshape(tape, spread, {x.dim(0), x.dim(1), width}),
          tape.training() && balance_ > 0.0 ? scale(tape, routing.balance, balance_) : Var()};
}

}  // namespace fovea::nn
