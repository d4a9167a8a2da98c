#include <fmt/format.h>

#include "mechanisms/kind.h"

namespace fovea {
namespace {

constexpr std::string_view kWhere = "attention_step";

void check_options(const AttentionOptions& options) {
  if (!options.keys.empty() || options.bias.defined() || options.mask.defined())
    fail(ErrorCode::unsupported, "a step has no bias, mask or lengths of keys", std::string(kWhere),
         "a pattern, or a bias by distance");
  if (options.align != Align::bottom_right)
    fail(ErrorCode::unsupported, "a step with top-left alignment", "align", "the last query stands on the last key");
  if (options.return_lse || options.initial_state.defined() || options.final_state)
    fail(ErrorCode::unsupported, "a step gives its output alone: no log-sum-exp, and its state is the DecodeState",
         std::string(kWhere), "attention()");
}

// Does what a sequence has cached go with the rows that are added, or else with the queries?
void check_cache(const DecodeState& state, const Call& call) {
  if (!state.keys.defined()) return;
  const Tensor &keys = state.keys, &values = state.values;
  const bool added = call.k.defined();
  const bool fits = added ? call.k.dim(2) == keys.dim(2) && call.v.dim(3) == values.dim(3)
                          : keys.dim(2) > 0 && call.q.dim(2) % keys.dim(2) == 0;
  if (!fits || call.q.dim(3) != keys.dim(3) || call.q.dtype() != keys.dtype())
    fail(ErrorCode::shape,
         fmt::format("the cache holds {} keys of shape {}, the step has {} queries of shape {}", name_of(keys.dtype()),
                     keys.shape().text(), name_of(call.q.dtype()), call.q.shape().text()),
         "states", "a state for each layer and sequence");
}

void check_states(const StepCall& step) {
  const Call& call = step.call;
  if (call.queries.size() != step.states.size())
    fail(ErrorCode::shape, fmt::format("{} sequences, but {} states", call.queries.size(), step.states.size()),
         "states", "one for each sequence");
  for (const DecodeState* state : step.states) {
    check_cache(*state, call);
    if (!call.k.defined() && !state->keys.defined())
      fail(ErrorCode::usage, "neither new keys nor any that are cached", "states", "k and v");
  }
}

// Positions of the new rows, (b, n).
Tensor next_positions(const StepCall& step) {
  const Tensor& q = step.call.q.value();
  std::vector<std::int32_t> positions(static_cast<std::size_t>(q.dim(0) * q.dim(1)));
  for (std::size_t s = 0; s < step.states.size(); ++s) {
    const Sequences::Rows& rows = step.call.queries[s];
    for (std::int64_t i = 0; i < rows.count; ++i)
      positions[static_cast<std::size_t>(rows.batch * q.dim(1) + rows.begin + i)] =
          static_cast<std::int32_t>(step.states[s]->length + i);
  }
  return Tensor::from<std::int32_t>(step.call.tape.context(), {q.dim(0), q.dim(1)}, positions);
}

}  // namespace

std::size_t DecodeState::bytes() const {
  std::size_t sum = states != nullptr ? states->bytes() / static_cast<std::size_t>(states->dim(0)) : 0;
  for (const Tensor* cache : {&keys, &values}) sum += cache->defined() ? cache->bytes() : 0;
  return sum;
}

Tensor attention_step(Tape& tape, const Tensor& q, const Tensor& k, const Tensor& v, const Mechanism& mechanism,
                      std::span<DecodeState* const> states, const AttentionOptions& options) {
  const StepForm& form = mechanism.kind().step;
  const bool adds = k.defined(), recurrent = form.memory == StepMemory::state;
  if (adds && !mechanism.supports(Feature::step)) refuse_feature(mechanism, Feature::step, "step form");
  check_options(options);
  if (adds)
    check_operands(q, k, v, mechanism, options);
  else if (!q.defined() || q.rank() != 4)
    fail(ErrorCode::shape, "q must have 4 axes (batch, n, heads, dim)", "q");
  AttentionOptions inner = options;
  inner.causal = adds;
  Call call{tape, q, k, v, mechanism, inner, options.queries.rows(q.dim(0), q.dim(1), "queries"), {}};
  const StepCall step{call, states};
  check_states(step);
  if (options.rotary && recurrent) {
    inner.positions = next_positions(step);
  } else if (options.rotary && !form.rotates_inside) {
    // Keys are cached rotated: their position is fixed when they are written.
    const Tensor positions = next_positions(step);
    call.q = rotate(tape, q, positions, *options.rotary);
    if (adds) call.k = rotate(tape, k, positions, *options.rotary);
    inner.rotary.reset();
  }
  // Cached keys alone are read by every mechanism that reads keys of another sequence.
  return adds || (form.run != nullptr && !recurrent) ? form.run(step) : step_on_cache(step);
}

Tensor attention_step(Tape& tape, const Tensor& q, const Tensor& k, const Tensor& v, const Mechanism& mechanism,
                      DecodeState& state, const AttentionOptions& options) {
  DecodeState* const states[] = {&state};
  return attention_step(tape, q, k, v, mechanism, states, options);
}

}  // namespace fovea
