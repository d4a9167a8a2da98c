#include "scan/check.h"
#include "scan/contract.h"
#include "scan/cpu/decay.h"
#include "scan/cpu/forms.h"

namespace fovea::scan {
namespace {

template <class R>
void run(const Context& context, const Problem& problem, const Forward& io) {
  if (io.total_decay != nullptr) write_total_decay(context, problem, io.log_decay, static_cast<R*>(io.total_decay));
  if (is_step(problem) && io.q_source == nullptr) return step_forward<R>(context, problem, io);
  return problem.causal ? causal_forward<R>(context, problem, io) : bidirectional_forward<R>(context, problem, io);
}

template <class R>
void run(const Context& context, const Problem& problem, const Backward& io) {
  return problem.causal ? causal_backward<R>(context, problem, io) : bidirectional_backward<R>(context, problem, io);
}

}  // namespace

template <>
void forward<Device::cpu>(const Context& context, const Problem& problem, const Forward& io) {
  check(problem, io);
  if (problem.dtype == DType::f64) return run<double>(context, problem, io);
  return run<float>(context, problem, io);
}

template <>
void backward<Device::cpu>(const Context& context, const Problem& problem, const Backward& io) {
  check(problem, io);
  if (problem.dtype == DType::f64) return run<double>(context, problem, io);
  return run<float>(context, problem, io);
}

}  // namespace fovea::scan
