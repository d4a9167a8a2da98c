#include "parallel/attention.h"

#include <fmt/format.h>

#include <algorithm>

#include "mechanisms/compose.h"
#include "mechanisms/mask.h"
#include "mechanisms/positions.h"
#include "mechanisms/score.h"
#include "mechanisms/static_sparse/sparse.h"
#include "parallel/ring.h"
#include "parallel/rows.h"
#include "parallel/slots.h"
#include "parallel/states.h"

namespace fovea::divided {
namespace {

constexpr std::string_view kByKeys[] = {"softmax", "relu2", "sigmoid", "diag", "window", "longformer"};
constexpr std::string_view kByStates[] = {"linear", "norm", "lightning", "retnet", "gla"};

[[noreturn]] void refuse(const Mechanism& mechanism, std::string_view what) {
  fail(ErrorCode::unsupported, fmt::format("attention \"{}\" of divided sequences with {}", mechanism.text(), what),
       fmt::format("support matrix: {} x sequence", mechanism.name()), "a mesh that does not divide sequences");
}

void refuse_options(const Mechanism& mechanism, const AttentionOptions& o) {
  if (o.bias.defined() || o.mask.defined()) refuse(mechanism, "a bias or a mask for pairs");
  if (o.initial_state.defined() || o.final_state) refuse(mechanism, "a state of the caller");
  if (!o.queries.empty() || !o.keys.empty() || o.positions.defined()) refuse(mechanism, "lengths of its own");
}

bool is_one_of(std::span<const std::string_view> names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

// Does the tiled engine do all that is asked, with a pattern of positions alone?
bool goes_by_keys(const Mechanism& mechanism, const AttentionOptions& o) {
  const std::string_view name = mechanism.name();
  if (!is_one_of(kByKeys, name) || o.diagonal_bias.defined()) return false;
  if (name == "diag") return mechanism.choice("tail") != "zeros";
  if (name == "sigmoid") return mechanism.choice("shift") != "log-n";
  if (name != "longformer") return true;
  return mechanism.integer("dilation") <= 1 &&
         (mechanism.integer("globals") == 0 || mechanism.choice("projections") != "own");
}

// What the mechanism asks of the engine, but for the call's own restrictions.
Ring ring_of(const Mechanism& m) {
  const std::string_view name = m.name();
  if (name == "relu2") return {.weight = tile::Weight::relu2};
  if (name == "sigmoid") return {.weight = tile::Weight::sigmoid, .offset = m.number("offset")};
  if (name == "window") return {.pattern = Pattern::window(m.integer("left"), m.integer("right"))};
  if (name == "diag")
    return {.weight = m.choice("weights") == "rela" ? tile::Weight::rela : tile::Weight::softmax,
            .pattern = Pattern::block_diagonal(m.integer("block"))};
  if (name == "longformer") {
    const std::int64_t window = m.integer("window"), globals = m.integer("globals");
    const Pattern near = Pattern::window(window, window);
    return {.pattern = globals == 0 ? near : near | first_keys(globals) | first_queries(globals)};
  }
  return {};
}

// Is the output normalised over all heads?
bool is_normed(const Mechanism& m) {
  if (m.name() == "relu2") return m.choice("norm") == "rms";
  return m.name() == "diag" &&
         (m.choice("norm") == "rms" || (m.choice("norm") == "auto" && m.choice("weights") == "rela"));
}

AttentionResult with_keys(const Call& call, const Division& division) {
  Tape& tape = call.tape;
  const bool has_score =
      call.mechanism.name() == "softmax" || call.mechanism.name() == "relu2" || call.mechanism.name() == "sigmoid";
  const Scored score = has_score ? scored(call) : Scored{call.q, call.k, scale_of(call)};
  const auto [q, k] = rotated(call, score.q, score.k);
  Ring ring = ring_of(call.mechanism);
  ring.pattern = kept_by(call.options, ring.pattern);
  ring.scale = score.scale;
  ring.alibi = call.options.alibi;
  ring.dropout_p = call.options.dropout_p;
  ring.heads = call.options.heads;
  const DType dtype = call.q.dtype();
  const RingResult result = ring_attention(tape, cast(tape, q, dtype), cast(tape, k, dtype), call.v, ring, division);
  const Var y = is_normed(call.mechanism)
                    ? normalize_heads(tape, result.output, NormKind::rms, call.mechanism.number("eps"))
                    : result.output;
  if (call.options.return_lse && !result.lse.defined()) refuse_feature(call.mechanism, Feature::lse, "log-sum-exp");
  return {cast(tape, y, dtype), call.options.return_lse ? result.lse : Var(), {}};
}

// A pass over keys and values alone tells what these rows make of a state.
AttentionResult with_state(const Call& call, const Division& division) {
  Tape& tape = call.tape;
  AttentionOptions alone = call.options;
  alone.final_state = true;
  Var q = call.q;
  if (!alone.rotary) {  // rotated by the positions given, queries are as many as keys
    q = slice(tape, q, 1, 0, 0);
    alone.keys = alone.queries;
    std::fill(alone.queries.cu_seqlens.begin(), alone.queries.cu_seqlens.end(), 0);
    alone.positions = {};
  }
  const Var made = fovea::attention(tape, q, call.k, call.v, call.mechanism, alone).final_state;
  Var decay;
  if (!call.mechanism.supports(Feature::bidirectional)) {  // it fades: a state of ones that nothing is added to
    const Tensor ones = Tensor::empty(tape.context(), made.shape(), made.dtype());
    ones.fill(1.0);
    alone.initial_state = ones;
    const Var nothing = Tensor::zeros(tape.context(), call.v.shape(), call.v.dtype());
    decay = fovea::attention(tape, q, call.k, nothing, call.mechanism, alone).final_state;
  }
  AttentionOptions options = call.options;
  options.initial_state = state_before(tape, made, decay, division, options.causal);
  return fovea::attention(tape, call.q, call.k, call.v, call.mechanism, options);
}

// Nothing is left out: what one rank does with all rows.
AttentionResult with_rows(const Call& call, const Division& division) {
  Tape& tape = call.tape;
  AttentionOptions options = call.options;
  options.queries = division.whole().rows;
  options.positions = {};
  const auto whole = [&](const Var& x) { return join(tape, x, division); };
  if (options.input.defined()) options.input = whole(options.input);
  const AttentionResult all =
      fovea::attention(tape, whole(call.q), whole(call.k), whole(call.v), call.mechanism, options);
  return {cut(tape, all.output, division), all.lse.defined() ? cut(tape, all.lse, division) : Var(), {}};
}

}  // namespace

Travels travels(const Mechanism& mechanism, const AttentionOptions& options) {
  if (goes_by_keys(mechanism, options)) return Travels::keys;
  if (mechanism.name() == "linformer" && options.dropout_p == 0.0) return Travels::slots;
  return is_one_of(kByStates, mechanism.name()) ? Travels::state : Travels::rows;
}

Pattern keys_pattern(const Mechanism& mechanism, const AttentionOptions& options) {
  return kept_by(options, ring_of(mechanism).pattern);
}

AttentionResult attention(Tape& tape, const Var& q, const Var& k, const Var& v, const Mechanism& mechanism,
                          const AttentionOptions& given, const Division& division) {
  refuse_options(mechanism, given);
  check_operands(q, k, v, mechanism, given);
  if (q.dim(0) != 1 || q.dim(1) != division.rows() || k.dim(1) != division.rows())
    fail(ErrorCode::shape, fmt::format("q has shape {}, this rank holds {} rows", q.shape().text(), division.rows()),
         "q", "(1, rows, heads, d), as Division::cut gives it");
  AttentionOptions options = given;
  options.queries = division.sequences();
  if (options.rotary) options.positions = division.positions(tape.context());
  const std::vector<Sequences::Rows> rows = options.queries.rows(1, division.rows(), "queries");
  const Call call{tape, q, k, v, mechanism, options, rows, rows};
  switch (travels(mechanism, given)) {
    case Travels::keys: return with_keys(call, division);
    case Travels::state: return with_state(call, division);
    case Travels::slots: return slot_attention(call, division);
    default: return with_rows(call, division);
  }
}

}  // namespace fovea::divided
