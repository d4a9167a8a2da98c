#include "scan/check.h"
#include "scan/contract.h"
#include "scan/forms.h"

namespace fovea::scan {
namespace {

template <class R>
void run(const Context& context, const Problem& problem, const Forward& io) {
  if (is_step(problem)) return step_forward<R>(context, problem, io);
  return problem.causal ? causal_forward<R>(context, problem, io) : bidirectional_forward<R>(context, problem, io);
}

template <class R>
void run(const Context& context, const Problem& problem, const Backward& io) {
  return problem.causal ? causal_backward<R>(context, problem, io) : bidirectional_backward<R>(context, problem, io);
}

}  // namespace

std::int64_t state_width(const Problem& problem) {
  return problem.d_v + (problem.denominator == Denominator::none ? 0 : 1);
}

std::int64_t statistic_columns(const Problem& problem) {
  if (problem.rms_norm) return 1;
  return problem.denominator == Denominator::none ? 0 : problem.heads;
}

std::int64_t decay_columns(const Problem& problem) {
  if (problem.decay == Decay::channel) return problem.d_k;
  return problem.decay == Decay::step ? 1 : 0;
}

void forward(const Context& context, const Problem& problem, const Forward& io) {
  check(problem, io);
  if (problem.dtype == DType::f64) return run<double>(context, problem, io);
  return run<float>(context, problem, io);
}

void backward(const Context& context, const Problem& problem, const Backward& io) {
  check(problem, io);
  if (problem.dtype == DType::f64) return run<double>(context, problem, io);
  return run<float>(context, problem, io);
}

}  // namespace fovea::scan
