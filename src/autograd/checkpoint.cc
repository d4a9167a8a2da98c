#include "fovea/autograd.h"

namespace fovea {
namespace {

struct Recompute {
  const Segment* segment;
  std::uint64_t stream;  // where the segment's random streams started
  bool training;
};

void recompute_backward(Tape& tape, Node& node) {
  const auto& attributes = std::any_cast<const Recompute&>(node.attributes);
  Tape inner(tape.context(), {.record = true, .training = attributes.training, .stream = attributes.stream});
  auto slot = std::make_shared<Slot>();
  slot->shape = node.saved[0].shape();
  slot->dtype = node.saved[0].dtype();
  const Var output = attributes.segment->run(inner, Var(std::move(node.saved[0]), slot));
  inner.backward(output, node.grad());
  if (slot->grad.defined()) tape.accumulate(node.inputs[0], std::move(slot->grad));
}

constexpr Op kRecompute{"recompute", recompute_backward};

}  // namespace

Var checkpoint(Tape& tape, const Segment& segment, const Var& input) {
  const std::uint64_t stream = tape.stream();
  Tape inner(tape.context(), {.record = false, .training = tape.training(), .stream = stream});
  const Var output = segment.run(inner, Var(input.value()));
  tape.set_stream(inner.stream());
  return tape.record(kRecompute, {input}, output.value(), {input.value()}, Recompute{&segment, stream, tape.training()});
}

}  // namespace fovea
