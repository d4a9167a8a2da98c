#include <fmt/format.h>

#include <cmath>
#include <numbers>

#include "mechanisms/scanned.h"
#include "ops/features.h"
#include "reference/kernel.h"

namespace fovea {
namespace {

bool is_fixed(const Mechanism& m) { return m.choice("period") == "fixed"; }

// Sine and cosine of an angle for each row.
struct Turn {
  double sine, cosine;
};
Turn turn_by(double angle) { return {std::sin(angle), std::cos(angle)}; }

// Angle of one position in every sequence: pi / 2M.
std::vector<double> angles_of(const Call& call) {
  std::vector<double> angles;
  for (std::size_t s = 0; s < call.keys.size(); ++s) {
    const std::int64_t longest = std::max(call.queries[s].count, call.keys[s].count);
    const std::int64_t period =
        is_fixed(call.mechanism) ? call.mechanism.integer("max_length") : std::max<std::int64_t>(1, longest);
    if (longest > period)
      fail(ErrorCode::usage, fmt::format("a sequence of {} tokens is longer than max_length = {}", longest, period),
           "attention.max_length", "cosformer:max_length=... is the longest sequence that will ever be seen");
    angles.push_back(std::numbers::pi / (2.0 * static_cast<double>(period)));
  }
  return angles;
}

// (b, n, 2): sine and cosine of every row's position, counted from `first` of its sequence.
Tensor turns_of(const Call& call, const Var& x, const std::vector<Sequences::Rows>& rows,
                const std::vector<double>& angles) {
  const DType wide = wide_type(x.dtype());
  const Tensor turns = Tensor::zeros(call.tape.context(), {x.dim(0), x.dim(1), 2}, wide);
  for (std::size_t s = 0; s < rows.size(); ++s) {
    // Bottom-right under causal order; else both sides are counted from their own beginning.
    const std::int64_t first = call.options.causal ? call.keys[s].count - rows[s].count : 0;
    for (std::int64_t i = 0; i < rows[s].count; ++i) {
      const Turn turn = turn_by(angles[s] * static_cast<double>(first + i));
      const std::int64_t at = 2 * (rows[s].batch * x.dim(1) + rows[s].begin + i);
      if (wide == DType::f64) {
        turns.data<double>()[at] = turn.sine;
        turns.data<double>()[at + 1] = turn.cosine;
      } else {
        turns.data<float>()[at] = static_cast<float>(turn.sine);
        turns.data<float>()[at + 1] = static_cast<float>(turn.cosine);
      }
    }
  }
  return turns;
}

// state (sequences, kv_heads, 2d, width): the halves of each sequence turned against each other.
Tensor turned_state(const Context& context, const Tensor& state, const std::vector<Turn>& turns) {
  const Tensor out = Tensor::empty(context, state.shape(), state.dtype());
  const auto turn = [&]<class R>() {
    const std::int64_t half = state.dim(2) / 2 * state.dim(3);
    for (std::int64_t i = 0; i < state.dim(0) * state.dim(1); ++i) {
      const Turn& t = turns[static_cast<std::size_t>(i / state.dim(1))];
      const auto sine = static_cast<R>(t.sine), cosine = static_cast<R>(t.cosine);
      const R* from = state.data<R>() + 2 * i * half;
      R* to = out.data<R>() + 2 * i * half;
      for (std::int64_t e = 0; e < half; ++e) {
        to[e] = from[e] * cosine - from[half + e] * sine;
        to[half + e] = from[half + e] * cosine + from[e] * sine;
      }
    }
  };
  state.dtype() == DType::f64 ? turn.operator()<double>() : turn.operator()<float>();
  return out;
}

void rebase_backward(Tape& tape, Node& node) {
  std::vector<Turn> back = std::any_cast<const std::vector<Turn>&>(node.attributes);
  for (Turn& turn : back) turn.sine = -turn.sine;
  const Tensor g = node.grad().contiguous(tape.context());
  tape.accumulate(node.inputs[0], turned_state(tape.context(), g, back));
}

constexpr Op kRebase{"rebase_state", rebase_backward};

// Weights depend on distances alone, so a state may be kept as seen from the position behind its last key: whoever
// goes on counts from 0 again.
Var rebased(const Call& call, const Var& state, const std::vector<double>& angles) {
  if (!state.defined()) return state;
  std::vector<Turn> turns;
  for (std::size_t s = 0; s < angles.size(); ++s)
    turns.push_back(turn_by(angles[s] * static_cast<double>(call.keys[s].count)));
  const Tensor out = turned_state(call.tape.context(), state.value(), turns);
  return call.tape.record(kRebase, {state}, out, {}, std::move(turns));
}

AttentionResult run(const Call& call) {
  const std::vector<double> angles = angles_of(call);
  const Var q = turned_features(call.tape, call.q, turns_of(call, call.q, call.queries, angles));
  const Var k = turned_features(call.tape, call.k, turns_of(call, call.k, call.keys, angles));
  AttentionResult result = run_on_features(
      call, {q, k}, {.denominator = scan::Denominator::clamp, .denominator_eps = call.mechanism.number("eps")});
  result.final_state = rebased(call, result.final_state, angles);
  return result;
}

reference::Result define(const reference::Problem& problem, const Mechanism& m) {
  return reference::cosine_weights(
      problem, {.period = is_fixed(m) ? static_cast<double>(m.integer("max_length")) : 0.0, .eps = m.number("eps")});
}

Flops flops(const Sizes& s, const Mechanism& m) { return scan_flops({s.n, s.heads, 2.0 * s.d_k, s.d_v, s.causal}, m); }

// Weights that change with the length of the sequence are not those of its beginning.
bool lacks(const Mechanism& m, Feature feature) {
  const bool carried = feature == Feature::strict || feature == Feature::state || feature == Feature::step;
  return carried && !is_fixed(m);
}

}  // namespace

const MechanismKind& cosformer_kind() {
  static const MechanismKind kind{
      .name = "cosformer",
      .family = "kernel",
      .summary = "rectified features weighed by the cosine of the distance",
      .paper = "Qin et al. 2022, cosFormer: Rethinking Softmax in Attention",
      .parameters = {{"period",
                      std::string("fixed"),
                      0,
                      0,
                      {"fixed", "current"},
                      "M is max_length, or the length of the sequence (the published code)"},
                     {"max_length", std::int64_t{65536}, 256, 1 << 30, {}, "M: the longest sequence there will be"},
                     {"eps", 1e-6, 1e-12, 1.0, {}, "least denominator"}},
      .features = kRecurrent,
      .lacks = lacks,
      .subquadratic = true,
      .memory = StepMemory::state,
      .run = run,
      .reference = define,
      .flops = flops,
  };
  return kind;
}

}  // namespace fovea
