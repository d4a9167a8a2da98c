#include <cmath>
#include <cstring>

#include "mechanisms/compose.h"
#include "mechanisms/state_space.h"
#include "ops/sequence.h"
#include "reference/units.h"

namespace fovea {
namespace {

// x (b, n, width) with its rows in reverse order.
Tensor reversed(const Context& context, const Tensor& x) {
  const Tensor in = x.contiguous(context), out = Tensor::empty(context, x.shape(), x.dtype());
  const std::int64_t n = x.dim(1);
  const auto bytes = static_cast<std::size_t>(x.dim(2)) * size_of(x.dtype());
  for (std::int64_t row = 0; row < x.dim(0) * n; ++row) {
    const std::int64_t to = row / n * n + (n - 1 - row % n);
    std::memcpy(static_cast<std::byte*>(out.raw()) + static_cast<std::size_t>(to) * bytes,
                static_cast<const std::byte*>(in.raw()) + static_cast<std::size_t>(row) * bytes, bytes);
  }
  return out;
}

constexpr Op kReverse{"reverse_rows", [](Tape& tape, Node& node) {
                        tape.accumulate(node.inputs[0], reversed(tape.context(), node.grad()));
                      }};

Var reverse(Tape& tape, const Var& x) { return tape.record(kReverse, {x}, reversed(tape.context(), x.value()), {}); }

// y as it is; q and k, which are not read, get a gradient of zeros.
void unread_backward(Tape& tape, Node& node) {
  tape.accumulate(node.inputs[0], node.grad());
  for (std::size_t i = 1; i < node.inputs.size(); ++i)
    if (node.wants(i))
      tape.accumulate(node.inputs[i], Tensor::zeros(tape.context(), node.inputs[i]->shape, node.inputs[i]->dtype));
}

constexpr Op kUnread{"unread", unread_backward};

// Every channel of v is a signal by itself: convolved with its impulse response, and with that of the future on the
// reversed signal.
Var body(const Call& call) {
  Tape& tape = call.tape;
  const std::vector<Var>& w = call.options.weights;
  const std::int64_t b = call.v.dim(0), n = call.v.dim(1), heads = call.q.dim(2), d = call.v.dim(3);
  const std::int64_t channels = heads * d, states = w[1].dim(2);
  const bool both = !call.options.causal;
  const Var u = reshape(tape, repeat_heads(tape, call.v, heads), {b, n, channels});
  const Var responses =
      impulse_responses(tape,
                        {reshape(tape, w[0], {channels}), reshape(tape, w[1], {channels, states}),
                         reshape(tape, w[2], {channels, states}), reshape(tape, w[3], {2, channels, states, 2})},
                        n, both);
  const auto response = [&](std::int64_t direction) {
    return reshape(tape, slice(tape, responses, 0, direction, direction + 1), {channels, n});
  };
  Var y = add(tape, fft_conv(tape, u, response(0)), mul(tape, u, reshape(tape, w[4], {channels})));
  if (both) y = add(tape, y, reverse(tape, fft_conv(tape, reverse(tape, u), response(1))));
  return reshape(tape, y, {b, n, heads, d});
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
  return {{.name = "log_dt", .shape = {h, d}, .init = {Init::Kind::uniform, std::log(10.0)}},  // 1e-3 to 1e-1
          {.name = "decay", .shape = {h, d, states}, .init = Init::zeros()},
          {.name = "frequency", .shape = {h, d, states}, .init = Init::zeros()},
          {.name = "c", .shape = {2, h, d, states, 2}, .init = Init::normal(std::sqrt(0.5))},
          {.name = "skip", .shape = {h, d}, .init = Init::normal(1.0)}};
}

// The impulse responses, and three transforms of twice the length.
Flops flops(const Sizes& s, const Mechanism& mechanism) {
  const double channels = s.heads * s.d_v, directions = s.causal ? 1.0 : 2.0;
  const double response = 2.0 * s.n * static_cast<double>(mechanism.integer("states"));
  const double transform = 5.0 * s.n * std::log2(2.0 * s.n);
  return {directions * channels * (response + 3.0 * transform),
          directions * channels * (2.0 * response + 6.0 * transform)};
}

}  // namespace

const MechanismKind& s4d_kind() {
  static const MechanismKind kind{
      .name = "s4d",
      .family = "recurrent",
      .summary = "a diagonal state space for every channel of v: a long convolution, no queries or keys",
      .paper = "Gu et al. 2022, On the Parameterization and Initialization of Diagonal State Space Models",
      .parameters = {{"states", std::int64_t{64}, 2, 1024, {}, "of a channel, half of them conjugates of the others"}},
      .features = {Feature::causal, Feature::bidirectional, Feature::padding, Feature::packed, Feature::grouped,
                   Feature::strict},
      .subquadratic = true,
      .memory = Memory::state,
      .run = run,
      .reference = define,
      .flops = flops,
      .weights = weights,
      .style = {.values_only = true},
  };
  return kind;
}

}  // namespace fovea
