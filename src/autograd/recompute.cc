#include "autograd/new_slot.h"

namespace fovea {
namespace {

struct Recompute {
  std::shared_ptr<const Segment> segment;
  std::uint64_t stream;  // where the segment's random streams started
  bool training;
};

// What leads to no gradient in the second run has none to give.
void drop_constants(std::vector<Var>& outputs, std::vector<Tensor>& seeds) {
  for (std::size_t i = outputs.size(); i-- > 0;)
    if (!outputs[i].needs_grad()) {
      outputs.erase(outputs.begin() + static_cast<std::ptrdiff_t>(i));
      seeds.erase(seeds.begin() + static_cast<std::ptrdiff_t>(i));
    }
}

void recompute_backward(Tape& tape, Node& node) {
  const auto& attributes = std::any_cast<const Recompute&>(node.attributes);
  Tape inner(tape, {.record = true, .training = attributes.training, .replay = true, .stream = attributes.stream});
  std::vector<std::shared_ptr<Slot>> slots;
  std::vector<Var> inputs;
  for (std::size_t i = 0; i < node.saved.size(); ++i) {
    inputs.push_back(node.wants(i) ? wanted(std::move(node.saved[i])) : Var(std::move(node.saved[i])));
    slots.push_back(inputs.back().slot());
  }
  std::vector<Var> outputs = attributes.segment->run(inner, inputs);
  inputs.clear();  // the inner tape keeps what it needs
  std::vector<Tensor> seeds;
  for (std::size_t i = 0; i < outputs.size(); ++i) seeds.push_back(node.grad(i));
  drop_constants(outputs, seeds);
  inner.backward(outputs, seeds);
  for (std::size_t i = 0; i < slots.size(); ++i)
    if (slots[i] != nullptr && slots[i]->grad.defined()) tape.accumulate(node.inputs[i], std::move(slots[i]->grad));
}

constexpr Op kRecompute{"recompute", recompute_backward, true};

}  // namespace

// The node's inputs are those of the segment and, after them, the leaves that its inside uses.
std::vector<Var> recompute(Tape& tape, std::shared_ptr<const Segment> segment, std::span<const Var> inputs) {
  const std::uint64_t stream = tape.stream();
  Tape inner(tape, {.record = false, .training = tape.training(), .replay = tape.replaying(), .stream = stream});
  std::vector<Var> constants, used(inputs.begin(), inputs.end());
  std::vector<Tensor> saved, outputs;
  for (const Var& v : inputs) {
    constants.emplace_back(v.value());
    saved.push_back(v.value());
  }
  for (const Var& v : segment->run(inner, constants)) outputs.push_back(v.value());
  tape.set_stream(inner.stream());
  used.insert(used.end(), inner.used().begin(), inner.used().end());
  return tape.record(kRecompute, used, std::move(outputs), std::move(saved),
                     Recompute{std::move(segment), stream, tape.training()});
}

}  // namespace fovea
