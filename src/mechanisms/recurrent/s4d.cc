#include <cmath>

#include "mechanisms/compose.h"
#include "mechanisms/recurrent/state_space.h"
#include "reference/units.h"

namespace fovea {
namespace {

// y as it is; q and k, which are not read, get a gradient of zeros.
void unread_backward(Tape& tape, Node& node) {
  tape.accumulate(node.inputs[0], node.grad());
  for (std::size_t i = 1; i < node.inputs.size(); ++i)
    if (node.wants(i))
      tape.accumulate(node.inputs[i], Tensor::zeros(tape.context(), node.inputs[i]->shape, node.inputs[i]->dtype));
}

constexpr Op kUnread{"unread", unread_backward};

// Every channel of v is a signal by itself.
Var body(const Call& call) {
  Tape& tape = call.tape;
  const std::vector<Var>& w = call.options.weights;
  const std::int64_t b = call.v.dim(0), n = call.v.dim(1), heads = call.q.dim(2), d = call.v.dim(3);
  const std::int64_t channels = heads * d, states = w[1].dim(2);
  const StateSpace space{reshape(tape, w[0], {channels}), reshape(tape, w[1], {channels, states}),
                         reshape(tape, w[2], {channels, states}), reshape(tape, w[3], {2, channels, states, 2})};
  const Var rows = reshape(tape, repeat_heads(tape, call.v, heads), {b, n, channels});
  const Var u = transpose(tape, rows, 1, 2);
  Var y = filter(tape, u, space, Reads::past);
  if (!call.options.causal) y = add(tape, y, filter(tape, u, space, Reads::future));
  const Var skip = mul(tape, rows, reshape(tape, w[4], {channels}));
  return reshape(tape, add(tape, skip, transpose(tape, y, 1, 2)), {b, n, heads, d});
}

AttentionResult run(const Call& call) {
  const Var y = each_sequence_wide(call, body);
  return {call.tape.record(kUnread, {y, call.q, call.k}, y.value(), {}), {}, {}};
}

reference::Result define(const reference::Problem& problem, const Mechanism& mechanism) {
  return reference::s4d(problem, mechanism.integer("states") / 2);
}

std::vector<WeightSpec> weights(const Mechanism& mechanism, const LayerSizes& sizes) {
  const std::int64_t h = sizes.heads, d = sizes.d_v, states = mechanism.integer("states") / 2;
  return {
      {.name = "log_dt",  // 1e-3 to 1e-1
       .shape = {h, d},
       .init = {Init::Kind::uniform, std::log(10.0)},
       .axes = "heads, d_v",
       .meaning = "an offset: the step of a channel is 0.01 e^log_dt"},
      {.name = "decay",
       .shape = {h, d, states},
       .init = Init::zeros(),
       .axes = "heads, d_v, states / 2",
       .meaning = "an offset: the real part of A is -e^decay / 2"},
      {.name = "frequency",
       .shape = {h, d, states},
       .init = Init::zeros(),
       .axes = "heads, d_v, states / 2",
       .meaning = "an offset: the imaginary part of A in state s is pi s + frequency"},
      {.name = "c",
       .shape = {2, h, d, states, 2},
       .init = Init::normal(std::sqrt(0.5)),
       .axes = "2, heads, d_v, states / 2, 2",
       .meaning = "C of what reads the past, then of what reads the future (bidirectional); real part, imaginary part"},
      {.name = "skip",
       .shape = {h, d},
       .init = Init::normal(1.0),
       .axes = "heads, d_v",
       .meaning = "D: what is added of the value itself"}};
}

// Four products for a step of each state (half of `states`) and two to read it; backward runs it again, back, and sums.
Flops flops(const Sizes& s, const Mechanism& mechanism) {
  const double steps = s.n * s.heads * s.d_v * 0.5 * static_cast<double>(mechanism.integer("states"));
  const double forward = (s.causal ? 1.0 : 2.0) * steps * 12.0;
  return {forward, 4.0 * forward};
}

}  // namespace

const MechanismKind& s4d_kind() {
  static const MechanismKind kind{
      .name = "s4d",
      .family = "recurrent",
      .summary = "a diagonal state space for every channel of v: a long convolution, no queries or keys",
      .paper = "Gu et al. 2022, On the Parameterization and Initialization of Diagonal State Space Models",
      .parameters = {{"states",
                      std::int64_t{16},
                      2,
                      1024,
                      {},
                      "of a channel, half of them conjugates of the others (4 to 64 in published runs)"}},
      .features = {Feature::causal, Feature::bidirectional, Feature::padding, Feature::packed, Feature::grouped,
                   Feature::strict},
      .subquadratic = true,
      .run = run,
      .reference = define,
      .flops = flops,
      .weights = weights,
      .style = {.values_only = true},
  };
  return kind;
}

}  // namespace fovea
