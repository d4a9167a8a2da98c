#include "parallel/states.h"

namespace fovea::divided {
namespace {

using Numbers = std::vector<double>;

// The states of all ranks, in f64: they are small, and sums over many ranks lose nothing.
std::vector<Numbers> of_all_ranks(const Division& division, const Tensor& own) {
  const dist::Group& ranks = division.ranks();
  const Numbers mine = own.to_vector<double>();
  const Numbers all = ranks.all_gather(mine);
  std::vector<Numbers> parts;
  for (int r = 0; r < ranks.size(); ++r) {
    const auto from = all.begin() + r * std::ssize(mine);
    parts.emplace_back(from, from + std::ssize(mine));
  }
  return parts;
}

Tensor tensor_of(const Context& context, const Numbers& values, const Shape& shape, DType dtype) {
  return Tensor::from<double>(context, shape, values).to(context, dtype);
}

struct StateCall {
  Division division;
  bool causal = false;
  std::vector<Numbers> decays;  // of all ranks; empty: nothing fades
};
using SharedStates = std::shared_ptr<const StateCall>;

// x = d x + s
void pass(const StateCall& call, std::size_t rank, const Numbers& s, Numbers& x) {
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = (call.decays.empty() ? 1.0 : call.decays[rank][i]) * x[i] + s[i];
}

enum StateSaved : std::size_t { kStateBefore };

// Causal: the gradient of what rank r leaves is l_{r+1}, where l_t = g_t + D_t l_{t+1}.
void states_backward(Tape& tape, Node& node) {
  const StateCall& call = *std::any_cast<const SharedStates&>(node.attributes);
  const auto rank = static_cast<std::size_t>(call.division.ranks().rank());
  const Tensor& before = node.saved[kStateBefore];
  const std::vector<Numbers> gradients = of_all_ranks(call.division, node.grad(0));
  Numbers left(gradients[rank].size(), 0.0);
  for (std::size_t t = gradients.size(); t-- > 0;) {
    if (call.causal ? t > rank : t != rank) {
      if (call.causal)
        pass(call, t, gradients[t], left);
      else
        for (std::size_t i = 0; i < left.size(); ++i) left[i] += gradients[t][i];
    }
  }
  const Context& context = tape.context();
  tape.accumulate(node.inputs[0], tensor_of(context, left, before.shape(), before.dtype()));
  if (node.inputs.size() < 2 || !node.wants(1)) return;
  Numbers d_decay = before.to_vector<double>();
  for (std::size_t i = 0; i < d_decay.size(); ++i) d_decay[i] *= left[i];
  tape.accumulate(node.inputs[1], tensor_of(context, d_decay, before.shape(), before.dtype()));
}

constexpr Op kStates{"state_before", states_backward};

}  // namespace

Var state_before(Tape& tape, const Var& state, const Var& decay, const Division& division, bool causal) {
  const auto call = std::make_shared<StateCall>(StateCall{division, causal, {}});
  const std::vector<Numbers> states = of_all_ranks(division, state.value());
  if (decay.defined()) call->decays = of_all_ranks(division, decay.value());
  const auto rank = static_cast<std::size_t>(division.ranks().rank());
  Numbers before(states[rank].size(), 0.0);
  for (std::size_t r = 0; r < states.size(); ++r) {
    if (causal && r < rank) pass(*call, r, states[r], before);
    if (!causal && r != rank)
      for (std::size_t i = 0; i < before.size(); ++i) before[i] += states[r][i];
  }
  const Tensor value = tensor_of(tape.context(), before, state.shape(), state.dtype());
  std::vector<Var> inputs{state};
  if (decay.defined()) inputs.push_back(decay);
  return tape.record(kStates, inputs, {value}, {value}, SharedStates(call)).front();
}

}  // namespace fovea::divided
