#include <fmt/format.h>

#include "autograd/host_stream.h"
#include "mechanisms/compose.h"
#include "mechanisms/tiled.h"
#include "reference/recurrent.h"

namespace fovea {
namespace {

bool joint(const Mechanism& mechanism) { return mechanism.choice("read") == "joint"; }

// The memory (slots, heads, d): learned, or noise of this call.
Var memory_of(const Call& call, std::size_t weight) {
  const Var& learned = call.options.weights[weight];
  if (!call.mechanism.flag("noise")) return learned;
  return make_weight(call.tape.context(), fmt::format("memory.{}", next_host_stream(call.tape)), learned.shape(),
                     learned.dtype(), Init::normal(1.0));
}

// The same for every item of the batch, in the dtype of q.
Var slots_of(const Call& call, std::size_t weight) {
  const Var w = memory_of(call, weight);
  const Index first(Tensor::zeros(call.tape.context(), {call.q.dim(0)}, DType::i32), 0, 1);
  const Var one = reshape(call.tape, w, {1, w.dim(0), w.dim(1), w.dim(2)});
  return gather(call.tape, cast(call.tape, one, call.q.dtype()), first);
}

// The rows [begin, end) of queries that may read any token.
struct Seeing {
  std::int64_t begin, end;
};
Seeing seeing_rows(const Call& call) {
  const std::int64_t n_q = call.q.dim(1), n_k = call.k.dim(1), first = n_k - n_q;  // position of row 0
  const Window window = call.options.window.value_or(Window{});
  const std::int64_t ahead = call.options.causal ? 0 : window.right;
  Seeing rows{0, n_q};
  if (ahead >= 0) rows.begin = std::clamp<std::int64_t>(-ahead - first, 0, n_q);
  if (window.left >= 0) rows.end = std::clamp<std::int64_t>(n_k + window.left - first, rows.begin, n_q);
  return rows;
}

// The read of the slots by the queries that see a token: alone, or in one softmax with the tokens.
Var read(const Call& call) {
  Tape& tape = call.tape;
  const std::int64_t n_q = call.q.dim(1), heads = call.q.dim(2);
  const auto [begin, end] = seeing_rows(call);
  const Var q = slice(tape, call.q, 1, begin, end);
  Var k = slots_of(call, 0), v = slots_of(call, 1);
  AttentionOptions options;
  options.scale = call.options.scale;
  if (joint(call.mechanism)) {  // slots in front: they precede every position
    options.causal = call.options.causal;
    k = concat(tape, std::vector<Var>{k, repeat_heads(tape, call.k, heads)}, 1);
    v = concat(tape, std::vector<Var>{v, repeat_heads(tape, call.v, heads)}, 1);
  }
  const auto whole = [](const Var& x) { return Sequences{}.rows(x.dim(0), x.dim(1), "rows"); };
  const Var o = run_tiled({tape, q, k, v, call.mechanism, options, whole(q), whole(k)}, {}).output;
  if (begin == 0 && end == n_q) return o;
  const auto nothing = [&](std::int64_t rows) {
    return Var(Tensor::zeros(tape.context(), {o.dim(0), rows, heads, o.dim(3)}, o.dtype()));
  };
  return concat(tape, std::vector<Var>{nothing(begin), o, nothing(n_q - end)}, 1);
}

AttentionResult run(const Call& call) {
  const Var memory = each_sequence(call, read);
  if (joint(call.mechanism)) return {memory, {}, {}};
  return {add(call.tape, run_tiled(call, {}).output, memory), {}, {}};
}

reference::Result define(const reference::Problem& problem, const Mechanism& mechanism) {
  return reference::memformer(problem, joint(mechanism));
}

bool lacks(const Mechanism& mechanism, Feature feature) {
  return joint(mechanism) && (feature == Feature::window || feature == Feature::alibi || feature == Feature::dropout);
}

std::vector<WeightSpec> weights(const Mechanism& mechanism, const LayerSizes& s) {
  const std::int64_t slots = mechanism.integer("slots");
  return {{.name = "memory_keys",
           .shape = {slots, s.heads, s.d_k},
           .init = Init::normal(1.0),
           .axes = "slots, heads, d_k",
           .meaning = "M_k: keys of the slots, for every head of q"},
          {.name = "memory_values",
           .shape = {slots, s.heads, s.d_v},
           .init = Init::normal(0.02),
           .axes = "slots, heads, d_v",
           .meaning = "M_v: values of the slots"}};
}

Flops flops(const Sizes& s, const Mechanism& mechanism) {
  const double slots = static_cast<double>(mechanism.integer("slots"));
  return pairwise_flops(s.n * (slots + s.n * (s.causal ? 0.5 : 1.0)), s);
}

}  // namespace

const MechanismKind& memformer_kind() {
  static const MechanismKind kind{
      .name = "memformer",
      .family = "recurrent",
      .summary = "softmax attention and a read of learned memory slots",
      .paper = "Cheng et al. 2024, A Memory Guided Transformer for Time Series Forecasting",
      .parameters = {{"slots", std::int64_t{16}, 1, 65536, {}, "learned slots of the memory"},
                     {"read",
                      std::string("separate"),
                      0,
                      0,
                      {"separate", "joint"},
                      "a softmax over the slots whose result is added, or one softmax over slots and tokens"},
                     {.name = "noise",
                      .fallback = false,
                      .help = "slots are drawn at every call, as published code does, and learn nothing",
                      .lawless = true}},
      .features = {Feature::scale, Feature::causal, Feature::bidirectional, Feature::cross, Feature::padding,
                   Feature::packed, Feature::dropout, Feature::window, Feature::alibi, Feature::step, Feature::grouped,
                   Feature::strict},
      .lacks = lacks,
      .subquadratic = false,
      .step = cached_step(window_start),
      .run = run,
      .reference = define,
      .flops = flops,
      .weights = weights,
  };
  return kind;
}

}  // namespace fovea
