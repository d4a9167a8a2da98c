#include "mechanisms/step_forms.h"

#include "fovea/zones.h"
#include "mechanisms/results.h"
#include "ops/work.h"
#include "tile/launch.h"

namespace fovea {
namespace {

constexpr std::int64_t kFirstCapacity = 64;

// Rows of a sequence, as a batch of 1; x (b, n, ...).
Tensor rows_of(const Tensor& x, const Sequences::Rows& rows) {
  return x.slice(0, rows.batch, rows.batch + 1).slice(1, rows.begin, rows.begin + rows.count);
}

// Room for the new rows after `length`, doubling; what was there stays. A cache that another state sees too is left to
// it: copies of a state cost nothing until one of them is moved on.
void reserve(const Context& context, Tensor& cache, const Tensor& rows, std::int64_t length) {
  const std::int64_t needed = length + rows.dim(1), now = cache.defined() ? cache.dim(1) : 0;
  if (now >= needed && !cache.is_shared()) return;
  const std::int64_t capacity = now >= needed ? now : std::max({kFirstCapacity, needed, 2 * now});
  const Tensor larger = Tensor::zeros(context, rows.shape().with(1, capacity), rows.dtype(), Lifetime::persistent);
  if (length > 0) larger.slice(1, 0, length).copy_from(cache.slice(1, 0, length));
  cache = larger;
}

void append(const Context& context, Tensor& cache, const Tensor& rows, std::int64_t length) {
  reserve(context, cache, rows, length);
  cache.slice(1, length, length + rows.dim(1)).copy_from(rows);
}

// Drops the first `count` cached rows.
void drop(const Tensor& cache, std::int64_t held, std::int64_t count) {
  for (std::int64_t i = 0; i + count < held; ++i)  // row by row: source and target may overlap
    cache.slice(1, i, i + 1).copy_from(cache.slice(1, i + count, i + count + 1));
}

Tensor output_of(const StepCall& step) {
  const Call& call = step.call;
  const std::int64_t width = step.states.empty() ? 0 : step.states[0]->values.dim(3);
  return output_like(call.tape.context(), {call.q.dim(0), call.q.dim(1), call.q.dim(2), width}, call.q.dtype(),
                     call.queries);
}

// The attention of a sequence over its cache.
Tensor attend_cache(const StepCall& step, std::size_t s) {
  const Call& call = step.call;
  const DecodeState& state = *step.states[s];
  AttentionOptions options = call.options;
  options.queries = {};
  if (options.input.defined()) options.input = rows_of(options.input.value(), call.queries[s]);
  return attention(call.tape, rows_of(call.q.value(), call.queries[s]), state.keys.slice(1, 0, state.held),
                   state.values.slice(1, 0, state.held), call.mechanism, options)
      .output.value();
}

// The states of all sequences side by side: those that moved on together still are.
Tensor stacked(const StepCall& step) {
  const auto count = static_cast<std::int64_t>(step.states.size());
  std::shared_ptr<const Tensor> some;
  bool together = true;
  for (std::int64_t s = 0; s < count; ++s) {
    const DecodeState& state = *step.states[static_cast<std::size_t>(s)];
    if (some == nullptr) some = state.states;
    together = together && state.states == some && state.row == s;
  }
  if (some == nullptr) return {};
  if (together && some->dim(0) == count) return *some;
  const Tensor stack = Tensor::zeros(step.call.tape.context(), some->shape().with(0, count), some->dtype());
  for (std::int64_t s = 0; s < count; ++s) {
    const DecodeState& state = *step.states[static_cast<std::size_t>(s)];
    if (state.states != nullptr) stack.slice(0, s, s + 1).copy_from(state.states->slice(0, state.row, state.row + 1));
  }
  return stack;
}

}  // namespace

void extend_caches(const StepCall& step) {
  const Call& call = step.call;
  if (!call.k.defined()) return;
  for (std::size_t s = 0; s < step.states.size(); ++s) {
    DecodeState& state = *step.states[s];
    const Sequences::Rows& rows = call.queries[s];
    append(call.tape.context(), state.keys, rows_of(call.k.value(), rows), state.held);
    append(call.tape.context(), state.values, rows_of(call.v.value(), rows), state.held);
    state.held += rows.count;
    state.length += rows.count;
  }
}

// Dropped rows keep their distance to later ones, and whole blocks keep their phase: patterns see no difference.
void trim_caches(const StepCall& step) {
  const Call& call = step.call;
  const auto first_needed = call.mechanism.kind().step.first_needed;
  if (first_needed == nullptr || !call.k.defined()) return;
  for (DecodeState* const state : step.states) {
    const std::int64_t dropped = state->length - state->held;
    const std::int64_t unneeded = first_needed(call.mechanism, call.options, state->length) - dropped;
    if (unneeded <= 0 || (unneeded != state->held && unneeded < kFirstCapacity)) continue;
    drop(state->keys, state->held, unneeded);
    drop(state->values, state->held, unneeded);
    state->held -= unneeded;
  }
}

Tensor step_on_cache(const StepCall& step) {
  extend_caches(step);
  Tensor out;
  if (step.states.size() == 1 && step.call.queries[0].count == step.call.q.dim(1)) {
    out = attend_cache(step, 0);
  } else {
    out = output_of(step);
    for (std::size_t s = 0; s < step.states.size(); ++s)
      if (step.call.queries[s].count > 0) rows_of(out, step.call.queries[s]).copy_from(attend_cache(step, s));
  }
  trim_caches(step);
  return out;
}

Tensor step_on_state(const StepCall& step) {
  const Call& call = step.call;
  AttentionOptions options = call.options;
  options.initial_state = stacked(step);
  options.final_state = true;
  const AttentionResult result = attention(call.tape, call.q, call.k, call.v, call.mechanism, options);
  const auto states = std::make_shared<const Tensor>(result.final_state.value());
  for (std::size_t s = 0; s < step.states.size(); ++s) {
    step.states[s]->states = states;
    step.states[s]->row = static_cast<std::int64_t>(s);
    step.states[s]->length += call.queries[s].count;
  }
  return result.output.value();
}

bool is_plain_query(const StepCall& step) {
  const Call& call = step.call;
  const AttentionOptions& o = call.options;
  const bool one_each =
      std::all_of(call.queries.begin(), call.queries.end(), [](auto& rows) { return rows.count == 1; });
  return one_each && (call.q.dtype() == DType::f32 || call.q.dtype() == DType::bf16) && !o.pattern && !o.alibi &&
         !o.rotary && !o.diagonal_bias.defined() && (call.k.defined() || !o.window);
}

Tensor attend_caches(const StepCall& step) {
  extend_caches(step);
  const Call& call = step.call;
  const Context& context = call.tape.context();
  const ZoneTimer timer(context.zones(), Zone::attention);
  const Tensor q = dense_rows(context, call.q.value()), o = output_of(step);
  std::vector<tile::QueryTensors> queries;
  for (std::size_t s = 0; s < step.states.size(); ++s) {
    const DecodeState& state = *step.states[s];
    const std::optional<Window>& window = call.options.window;
    const std::int64_t read = window && window->left >= 0 ? std::min(window->left + 1, state.held) : state.held;
    const auto seen = [&](const Tensor& cache) { return cache.slice(1, state.held - read, state.held); };
    queries.push_back({rows_of(q, call.queries[s]), seen(state.keys), seen(state.values), rows_of(o, call.queries[s])});
  }
  tile::attend_queries(context, scale_of(call), queries);
  trim_caches(step);
  return o;
}

}  // namespace fovea
