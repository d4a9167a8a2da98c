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
struct Rotation {
  double sine, cosine;
};
Rotation rotation_by(double angle) { return {std::sin(angle), std::cos(angle)}; }

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
Tensor rotations_of(const Call& call, const Var& x, const std::vector<Sequences::Rows>& rows,
                    const std::vector<double>& angles) {
  std::vector<double> rotations(static_cast<std::size_t>(2 * x.dim(0) * x.dim(1)), 0.0);
  for (std::size_t s = 0; s < rows.size(); ++s) {
    // Bottom-right under causal order; else both sides are counted from their own beginning.
    const std::int64_t first = call.options.causal ? call.keys[s].count - rows[s].count : 0;
    for (std::int64_t i = 0; i < rows[s].count; ++i) {
      const Rotation rotation = rotation_by(angles[s] * static_cast<double>(first + i));
      const auto at = static_cast<std::size_t>(2 * (rows[s].batch * x.dim(1) + rows[s].begin + i));
      rotations[at] = rotation.sine;
      rotations[at + 1] = rotation.cosine;
    }
  }
  const Context& context = call.tape.context();
  return Tensor::from<double>(context, {x.dim(0), x.dim(1), 2}, rotations).to(context, wide_type(x.dtype()));
}

// Weights depend on distances alone, so a state (sequences, kv_heads, 2d, width) may be kept as seen from the position
// behind its last key: whoever goes on counts from 0 again. The halves of each sequence turn against each other.
Var rebased(const Call& call, const Var& state, const std::vector<double>& angles) {
  if (!state.defined()) return state;
  Tape& tape = call.tape;
  std::vector<double> sines, cosines;
  for (std::size_t s = 0; s < angles.size(); ++s) {
    const Rotation rotation = rotation_by(angles[s] * static_cast<double>(call.keys[s].count));
    sines.push_back(rotation.sine);
    cosines.push_back(rotation.cosine);
  }
  // Sequences come last, where factors broadcast.
  const Var transposed = transpose(tape, state, 0, 3);
  const auto half = [&](std::int64_t begin) {
    return slice(tape, transposed, 2, begin * state.dim(2) / 2, (begin + 1) * state.dim(2) / 2);
  };
  const auto times = [&](const Var& x, const std::vector<double>& factors) {
    const Context& context = tape.context();
    return mul(tape, x, Tensor::from<double>(context, {std::ssize(factors)}, factors).to(context, x.dtype()));
  };
  const Var first = half(0), second = half(1);
  const Var parts[] = {sub(tape, times(first, cosines), times(second, sines)),
                       add(tape, times(second, cosines), times(first, sines))};
  return transpose(tape, concat(tape, parts, 2), 0, 3);
}

AttentionResult run(const Call& call) {
  const std::vector<double> angles = angles_of(call);
  const auto features = [&](const Var& x, const std::vector<Sequences::Rows>& rows) {
    const Var ranged = with_range(call.tape, x);
    return rotated_features(call.tape, ranged, rotations_of(call, ranged, rows, angles));
  };
  const Var q = features(call.q, call.queries), k = features(call.k, call.keys);
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
      .step = state_step(),
      .run = run,
      .reference = define,
      .flops = flops,
  };
  return kind;
}

}  // namespace fovea
