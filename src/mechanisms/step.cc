#include "fovea/zones.h"
#include "mechanisms/kind.h"
#include "tile/launch.h"

namespace fovea {
namespace {

constexpr std::int64_t kFirstCapacity = 64;

// Room for `extra` more rows after `length`, doubling; what was there stays. A cache that another state sees too is
// left to it: copies of a state cost nothing until one of them is moved on.
void reserve(const Context& context, Tensor& cache, const Tensor& rows, std::int64_t length, std::int64_t extra) {
  const std::int64_t needed = length + extra, now = cache.defined() ? cache.dim(1) : 0;
  if (now >= needed && !cache.is_shared()) return;
  const std::int64_t capacity = now >= needed ? now : std::max({kFirstCapacity, needed, 2 * now});
  const Tensor larger = Tensor::zeros(context, rows.shape().with(1, capacity), rows.dtype(), Lifetime::persistent);
  if (length > 0) larger.slice(1, 0, length).copy_from(cache.slice(1, 0, length));
  cache = larger;
}

// Drops the first `count` cached rows.
void drop(Tensor& cache, std::int64_t held, std::int64_t count) {
  for (std::int64_t i = 0; i + count < held; ++i)  // row by row: source and target may overlap
    cache.slice(1, i, i + 1).copy_from(cache.slice(1, i + count, i + count + 1));
}

// May the kernel for single queries take this step? Plain softmax over all that is cached.
bool is_single_query(const Call& call) {
  const AttentionOptions& o = call.options;
  const Var &q = call.q, &k = call.k, &v = call.v;
  const bool fits = q.dtype() == k.dtype() && q.dtype() == v.dtype() && q.dim(3) == k.dim(3) && v.dim(2) == k.dim(2) &&
                    k.dim(2) > 0 && q.dim(2) % k.dim(2) == 0;  // what does not is refused with the other calls
  return fits && call.mechanism.text() == "softmax" && q.dim(0) == 1 && q.dim(1) == 1 && k.dim(1) == 1 &&
         (q.dtype() == DType::f32 || q.dtype() == DType::bf16) && o.weights.empty() && !o.window && !o.pattern &&
         !o.alibi && !o.rotary && !o.diagonal_bias.defined();
}

Tensor step_single(const Context& context, const Call& call, const DecodeState& state) {
  const ZoneTimer timer(context.zones(), Zone::attention);
  const Tensor q = call.q.value().contiguous(context);
  const Tensor o = Tensor::empty(context, {1, 1, q.dim(2), state.values.dim(3)}, q.dtype());
  const auto held = [&](const Tensor& cache) { return cache.slice(1, 0, state.held); };
  tile::attend_query(context, scale_of(call), {q, held(state.keys), held(state.values), o});
  return o;
}

Tensor step_cache(const Call& call, DecodeState& state) {
  const Context& context = call.tape.context();
  const MechanismKind& kind = call.mechanism.kind();
  const Tensor &k = call.k.value(), &v = call.v.value();
  const std::int64_t fresh = k.dim(1);
  reserve(context, state.keys, k, state.held, fresh);
  reserve(context, state.values, v, state.held, fresh);
  state.keys.slice(1, state.held, state.held + fresh).copy_from(k);
  state.values.slice(1, state.held, state.held + fresh).copy_from(v);
  state.held += fresh;
  state.length += fresh;
  if (is_single_query(call)) return step_single(context, call, state);

  AttentionOptions options = call.options;
  options.causal = true;
  const Tensor output = attention(call.tape, call.q, state.keys.slice(1, 0, state.held),
                                  state.values.slice(1, 0, state.held), call.mechanism, options)
                            .output.value();
  // Dropped rows keep their distance to later ones, and whole blocks keep their phase: patterns see no difference.
  const std::int64_t dropped = state.length - state.held;
  const std::int64_t unneeded =
      kind.first_needed == nullptr ? 0 : kind.first_needed(call.mechanism, options, state.length) - dropped;
  if (unneeded > 0 && (unneeded == state.held || unneeded >= kFirstCapacity)) {
    drop(state.keys, state.held, unneeded);
    drop(state.values, state.held, unneeded);
    state.held -= unneeded;
  }
  return output;
}

Tensor step_state(const Call& call, DecodeState& state) {
  AttentionOptions options = call.options;
  options.causal = true;
  options.initial_state = state.state;
  options.final_state = true;
  const AttentionResult result = attention(call.tape, call.q, call.k, call.v, call.mechanism, options);
  state.state = result.final_state.value();
  state.length += call.k.dim(1);
  return result.output.value();
}

// Positions of the new rows, (b, n).
Tensor next_positions(const Context& context, const Tensor& q, std::int64_t first) {
  const Tensor positions = Tensor::empty(context, {q.dim(0), q.dim(1)}, DType::i32);
  for (std::int64_t i = 0; i < positions.numel(); ++i)
    positions.data<std::int32_t>()[i] = static_cast<std::int32_t>(first + i % q.dim(1));
  return positions;
}

}  // namespace

Tensor attention_step(Context& context, const Tensor& q, const Tensor& k, const Tensor& v, const Mechanism& mechanism,
                      DecodeState& state, const AttentionOptions& options) {
  Tape tape(context, {.record = false});
  return attention_step(tape, q, k, v, mechanism, state, options);
}

Tensor attention_step(Tape& tape, const Tensor& q, const Tensor& k, const Tensor& v, const Mechanism& mechanism,
                      DecodeState& state, const AttentionOptions& options) {
  if (!mechanism.supports(Feature::step)) refuse_feature(mechanism, Feature::step, "step form");
  if (!options.queries.empty() || !options.keys.empty() || options.bias.defined() || options.mask.defined())
    fail(ErrorCode::unsupported, "the step form takes whole batches: no lengths, packing, bias or mask");
  if (options.align != Align::bottom_right)
    fail(ErrorCode::unsupported, "a step with top-left alignment", "align", "the last query stands on the last key");
  const Context& context = tape.context();
  const bool recurrent = mechanism.kind().memory == StepMemory::state;
  AttentionOptions inner = options;
  Call call{tape, q, k, v, mechanism, inner, {}, {}};
  if (options.rotary && recurrent) {
    inner.positions = next_positions(context, q, state.length);
  } else if (options.rotary &&
             !mechanism.kind()
                  .rotates_inside) {  // keys are cached rotated: their position is fixed when they are written
    const Tensor positions = next_positions(context, q, state.length);
    call.q = rotate(tape, q, positions, *options.rotary);
    call.k = rotate(tape, k, positions, *options.rotary);
    inner.rotary.reset();
  }
  return recurrent ? step_state(call, state) : step_cache(call, state);
}

}  // namespace fovea
