#include "mechanisms/recurrent/state_space.h"

#include "core/visit_device.h"
#include "mechanisms/recurrent/state_space_kernels.h"

namespace fovea {
namespace {

enum Saved : std::size_t { kLogDt, kDecay, kFrequency, kC, kU };

kernels::SpaceTensors space_of(const std::vector<Tensor>& in) {
  return {in[kLogDt], in[kDecay], in[kFrequency], in[kC]};
}

void filter_backward(Tape& tape, Node& node) {
  const Context& context = tape.context();
  const Tensor& u = node.saved[kU];
  std::vector<Tensor> d;
  for (std::size_t i = kLogDt; i <= kC; ++i) d.push_back(Tensor::zeros(context, node.saved[i].shape(), u.dtype()));
  const kernels::FilterVjp io{space_of(node.saved),
                              u,
                              node.grad().contiguous(context),
                              Tensor::empty(context, u.shape(), u.dtype()),
                              space_of(d),
                              std::any_cast<Reads>(node.attributes)};
  visit_device(context, io, [&]<Device D>() { kernels::filter_backward<D>(context, io); });
  tape.accumulate(node.inputs[0], io.du);
  for (std::size_t i = kLogDt; i <= kC; ++i) tape.accumulate(node.inputs[i + 1], d[i]);
}

constexpr Op kFilter{"state_space", filter_backward};

}  // namespace

Var filter(Tape& tape, const Var& u, const StateSpace& space, Reads reads) {
  const Context& context = tape.context();
  std::vector<Tensor> saved;
  for (const Var* x : {&space.log_dt, &space.decay, &space.frequency, &space.c, &u})
    saved.push_back(x->value().contiguous(context));
  const kernels::Filter io{space_of(saved), saved[kU], Tensor::empty(context, u.shape(), u.dtype()), reads};
  visit_device(context, io, [&]<Device D>() { kernels::filter<D>(context, io); });
  return tape.record(kFilter, {u, space.log_dt, space.decay, space.frequency, space.c}, io.y, std::move(saved), reads);
}

}  // namespace fovea
