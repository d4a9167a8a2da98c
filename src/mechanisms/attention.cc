#include "fovea/attention.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "core/visit_device.h"
#include "fovea/zones.h"
#include "mechanisms/bias_kernels.h"
#include "mechanisms/kind.h"
#include "mechanisms/watch.h"

namespace fovea {
namespace {

void require_feature(const Mechanism& mechanism, Feature feature, bool wanted, std::string_view what) {
  if (wanted && !mechanism.supports(feature)) refuse_feature(mechanism, feature, what);
}

void check_shapes(const Var& q, const Var& k, const Var& v) {
  for (const auto& [name, x] : {std::pair("q", &q), std::pair("k", &k), std::pair("v", &v)}) {
    if (!x->defined() || x->value().rank() != 4)
      fail(ErrorCode::shape,
           fmt::format("{} must have 4 axes (batch, n, heads, dim), got {}", name,
                       x->defined() ? x->shape().text() : "nothing"),
           name);
    if (x == &q && !is_float(q.dtype()))
      fail(ErrorCode::shape, fmt::format("q is {}: it must be a floating dtype", name_of(q.dtype())), "q");
    if (x->dtype() != q.dtype())
      fail(ErrorCode::shape,
           fmt::format("{} is {}, q is {}: they must be one floating dtype", name, name_of(x->dtype()),
                       name_of(q.dtype())),
           name);
    if (x->dim(0) != q.dim(0))
      fail(ErrorCode::shape, fmt::format("{} has batch {}, q has {}", name, x->dim(0), q.dim(0)), name);
  }
  if (k.dim(3) != q.dim(3)) fail(ErrorCode::shape, fmt::format("k has width {}, q has {}", k.dim(3), q.dim(3)), "k");
  if (v.dim(1) != k.dim(1)) fail(ErrorCode::shape, fmt::format("v has length {}, k has {}", v.dim(1), k.dim(1)), "v");
  if (v.dim(2) != k.dim(2)) fail(ErrorCode::shape, fmt::format("v has {} heads, k has {}", v.dim(2), k.dim(2)), "v");
  if (q.dim(3) == 0 || v.dim(3) == 0 || q.dim(2) == 0) fail(ErrorCode::shape, "heads and widths must not be 0", "q, v");
  if (k.dim(2) == 0 || q.dim(2) % k.dim(2) != 0)
    fail(ErrorCode::shape, fmt::format("{} query heads are not a multiple of {} key heads", q.dim(2), k.dim(2)), "k");
}

// Bias and mask broadcast over any axis of (b, heads, n_q, n_k).
void check_pairwise(const Shape& shape, const Var& q, const Var& k, const char* name) {
  const Shape full{q.dim(0), q.dim(2), q.dim(1), k.dim(1)};
  bool fits = shape.rank() == 4;
  for (int i = 0; fits && i < 4; ++i) fits = shape[i] == 1 || shape[i] == full[i];
  if (!fits)
    fail(ErrorCode::shape, fmt::format("{} has shape {}, expected {} or 1 on an axis", name, shape.text(), full.text()),
         name);
}

void check_diagonals(const Var& q, const AttentionOptions& o, DType wide) {
  if (!o.diagonal_bias.defined()) return;
  const Shape& shape = o.diagonal_bias.shape();
  if (shape.rank() != 3 || (shape[0] != 1 && shape[0] != q.dim(0)) || (shape[1] != 1 && shape[1] != q.dim(2)) ||
      shape[2] % 2 == 0)
    fail(ErrorCode::shape,
         fmt::format("diagonal_bias has shape {}, expected ({} or 1, {} or 1, 2 L - 1)", shape.text(), q.dim(0),
                     q.dim(2)),
         "diagonal_bias");
  if (o.diagonal_bias.dtype() != wide)
    fail(ErrorCode::shape, fmt::format("diagonal_bias must be {}", name_of(wide)), "diagonal_bias");
  if (o.bias.defined() || o.mask.defined())
    fail(ErrorCode::unsupported, "a bias or a mask together with a diagonal_bias", "diagonal_bias",
         "add the diagonals to the bias, or use a pattern");
}

// Sequences that a bias by distance does not reach.
void check_reach(const Call& call) {
  if (!call.options.diagonal_bias.defined()) return;
  const std::int64_t reach = (call.options.diagonal_bias.dim(2) + 1) / 2;
  for (std::size_t s = 0; s < call.queries.size(); ++s)
    if (std::max(call.queries[s].count, call.keys[s].count) > reach)
      fail(ErrorCode::shape,
           fmt::format("diagonal_bias is made for lengths up to {}, sequence {} has {} queries and {} keys", reach, s,
                       call.queries[s].count, call.keys[s].count),
           "diagonal_bias");
}

void check_features(const Mechanism& m, const AttentionOptions& o, bool cross, bool grouped) {
  require_feature(m, o.causal ? Feature::causal : Feature::bidirectional, true,
                  o.causal ? "causal form" : "bidirectional form");
  require_feature(m, Feature::grouped, grouped, "form with fewer heads of k and v than of q");
  require_feature(m, Feature::cross, cross, "form for queries and keys of different lengths");
  require_feature(m, Feature::padding, !o.queries.lengths.empty() || !o.keys.lengths.empty(), "padding");
  require_feature(m, Feature::packed, !o.queries.cu_seqlens.empty() || !o.keys.cu_seqlens.empty(), "packed sequences");
  require_feature(m, Feature::scale, o.scale.has_value(), "scale");
  require_feature(m, Feature::dropout, o.dropout_p != 0.0, "weights to drop: set dropout to 0");
  require_feature(m, Feature::bias, o.bias.defined(), "additive bias");
  require_feature(m, Feature::bias, o.mask.defined(), "pairwise mask");
  require_feature(m, Feature::bias, o.diagonal_bias.defined(), "bias by distance");
  require_feature(m, Feature::window, o.window.has_value(), "window");
  require_feature(m, Feature::pattern, o.pattern.has_value(), "pattern");
  require_feature(m, Feature::alibi, o.alibi, "ALiBi");
  require_feature(m, Feature::rotary, o.rotary.has_value(), "rotary positions");
  require_feature(m, Feature::lse, o.return_lse, "log-sum-exp");
  require_feature(m, Feature::state, o.initial_state.defined() || o.final_state, "state");
}

void check_values(const Var& q, const Var& k, const AttentionOptions& o) {
  if (!(o.dropout_p >= 0.0 && o.dropout_p < 1.0))
    fail(ErrorCode::usage, fmt::format("dropout_p must lie in [0, 1), got {}", o.dropout_p), "dropout_p");
  if (o.window && (o.window->left < -1 || o.window->right < -1))
    fail(ErrorCode::usage, "window sizes are -1 (unlimited) or at least 0", "window");
  const DType wide = wide_type(q.dtype());
  if (o.bias.defined()) {
    check_pairwise(o.bias.shape(), q, k, "bias");
    if (o.bias.dtype() != wide) fail(ErrorCode::shape, fmt::format("bias must be {}", name_of(wide)), "bias");
  }
  if (o.mask.defined()) {
    check_pairwise(o.mask.shape(), q, k, "mask");
    if (o.mask.dtype() != DType::u8) fail(ErrorCode::shape, "mask must be u8, 1 = keep", "mask");
  }
  check_diagonals(q, o, wide);
}

bool fits(const Shape& shape, const Shape& wanted) {
  if (shape.rank() != wanted.rank()) return false;
  for (int i = 0; i < shape.rank(); ++i)
    if (wanted[i] >= 0 && shape[i] != wanted[i]) return false;
  return true;
}

// The weights and the layer's input that this mechanism reads.
void check_extras(const Var& q, const Var& k, const Var& v, const Mechanism& m, const AttentionOptions& o) {
  const DType wide = wide_type(q.dtype());
  if (m.needs_input() && !o.input.defined())
    fail(ErrorCode::usage, fmt::format("attention \"{}\" also reads the input of its layer", m.name()), "input",
         "options.input, (batch, n, width)");
  if (o.input.defined() && (o.input.value().rank() != 3 || o.input.dim(0) != k.dim(0) || o.input.dim(1) != k.dim(1)))
    fail(ErrorCode::shape,
         fmt::format("input has shape {}, expected ({}, {}, width)", o.input.shape().text(), k.dim(0), k.dim(1)),
         "input");
  const std::vector<WeightSpec> specs = m.weights({.heads = q.dim(2),
                                                   .kv_heads = k.dim(2),
                                                   .d_k = q.dim(3),
                                                   .d_v = v.dim(3),
                                                   .width = o.input.defined() ? o.input.dim(2) : 0});
  if (specs.size() != o.weights.size())
    fail(ErrorCode::usage,
         fmt::format("attention \"{}\" has {} weights, {} were given", m.name(), specs.size(), o.weights.size()),
         "weights", "make_weights() draws them");
  for (std::size_t i = 0; i < specs.size(); ++i) {
    const Var& w = o.weights[i];
    if (!w.defined() || w.dtype() != wide || !fits(w.shape(), specs[i].shape))
      fail(ErrorCode::shape,
           fmt::format("weight {} is {}, expected {} {}", specs[i].name,
                       w.defined() ? fmt::format("{} {}", name_of(w.dtype()), w.shape().text()) : "missing",
                       name_of(wide), specs[i].shape.text()),
           fmt::format("weights[{}]", i));
  }
}

// Nobody reads the keys behind the last query: without them both alignments are the same.
void align_top_left(Call& call) {
  if (!call.options.causal)
    fail(ErrorCode::usage, "top-left alignment is that of causal calls", "align", "causal, or align = bottom_right");
  for (std::size_t s = 0; s < call.queries.size(); ++s)
    call.keys[s].count = std::min(call.keys[s].count, call.queries[s].count);
}

// How many queries of a sequence stand behind its last key.
std::int64_t queries_behind(const Call& call, std::size_t s) {
  const std::int64_t n_q = call.queries[s].count, n_k = call.keys[s].count;
  return call.options.align == Align::top_left && n_k > 0 ? n_q - n_k : 0;
}

Call with_options(const Call& call, const AttentionOptions& options) {
  return {call.tape, call.q, call.k, call.v, call.mechanism, options, call.queries, call.keys};
}

// The queries that have a key of their own are aligned as ever. Each of the others stands on the last key, by itself:
// a run for the first of them in every sequence, one for the second, ...
AttentionResult run_aligned(const Call& call) {
  const auto run = call.mechanism.kind().run;
  std::int64_t most = 0;
  Call own = with_options(call, call.options);
  for (std::size_t s = 0; s < call.queries.size(); ++s) {
    most = std::max(most, queries_behind(call, s));
    own.queries[s].count -= queries_behind(call, s);
  }
  AttentionResult result = run(own);
  AttentionOptions options = call.options;
  options.final_state = false;
  for (std::int64_t t = 0; t < most; ++t) {
    Call alone = with_options(call, options);
    for (std::size_t s = 0; s < call.queries.size(); ++s) {
      alone.queries[s].begin += own.queries[s].count + (t < queries_behind(call, s) ? t : 0);
      alone.queries[s].count = t < queries_behind(call, s) ? 1 : 0;
    }
    const AttentionResult more = run(alone);
    if (result.lse.defined()) {
      const Partial both = merge(call.tape, {result.output, result.lse}, {more.output, more.lse});
      result.output = both.output;
      result.lse = both.lse;
    } else {
      result.output = add(call.tape, result.output, more.output);
    }
  }
  return result;
}

Call make_call(Tape& tape, const Var& q, const Var& k, const Var& v, const Mechanism& mechanism,
               const AttentionOptions& options) {
  const bool self = q.dim(1) == k.dim(1);
  const Sequences& keys = options.keys.empty() && self ? options.queries : options.keys;
  Call call{tape,
            q,
            k,
            v,
            mechanism,
            options,
            options.queries.rows(q.dim(0), q.dim(1), "queries"),
            keys.rows(k.dim(0), k.dim(1), "keys")};
  if (call.queries.size() != call.keys.size())
    fail(ErrorCode::shape, fmt::format("{} sequences of queries, {} of keys", call.queries.size(), call.keys.size()),
         "keys");
  bool cross = false;
  for (std::size_t s = 0; s < call.queries.size(); ++s) cross = cross || call.queries[s].count != call.keys[s].count;
  check_features(mechanism, options, cross, q.dim(2) != k.dim(2));
  if (options.align == Align::top_left) align_top_left(call);
  check_reach(call);
  return call;
}

bool are_numbers(const Context& context, const Tensor& x, bool or_minus_infinity) {
  const kernels::AreNumbers io{x.contiguous(context), or_minus_infinity, Tensor::empty(context, {}, DType::u8)};
  visit_device(context, io, [&]<Device D>() { kernels::are_numbers<D>(context, io); });
  return io.flag.item() != 0.0;
}

// A bias of NaN or +inf has no meaning, and shows in every row that it reaches: the output is looked at, which is less
// than n x n numbers. Another device would have to be waited for: there NaN in the output must do.
void check_bias(const Context& context, const AttentionOptions& options, const Tensor& output) {
  if (context.device() != Device::cpu) return;
  const bool diagonal = options.diagonal_bias.defined();
  const Var& bias = diagonal ? options.diagonal_bias : options.bias;
  if (!bias.defined() || are_numbers(context, output, false) || are_numbers(context, bias.value(), true)) return;
  fail(ErrorCode::usage, "the bias holds NaN or +inf", diagonal ? "diagonal_bias" : "bias",
       "finite numbers, or -inf to hide a pair");
}

}  // namespace

std::string_view name_of(Align align) { return align == Align::top_left ? "top-left" : "bottom-right"; }

void check_operands(const Var& q, const Var& k, const Var& v, const Mechanism& mechanism,
                    const AttentionOptions& options) {
  check_shapes(q, k, v);
  check_values(q, k, options);
  check_extras(q, k, v, mechanism, options);
}

void refuse_feature(const Mechanism& mechanism, Feature feature, std::string_view what) {
  fail(ErrorCode::unsupported, fmt::format("attention \"{}\" has no {}", mechanism.name(), what),
       fmt::format("support matrix: {} x {}", mechanism.name(), name_of(feature)),
       fmt::format("one that has it: fovea list --with {}", name_of(feature)));
}

std::vector<Var> make_weights(const Context& context, const Mechanism& mechanism, const LayerSizes& sizes, DType dtype,
                              std::string_view name) {
  const DType wide = wide_type(dtype);
  std::vector<Var> weights;
  for (const WeightSpec& spec : mechanism.weights(sizes)) {
    const Tensor value = make_weight(context, fmt::format("{}.{}", name, spec.name), spec.shape, wide, spec.init);
    weights.push_back(spec.trained ? Var::leaf(value) : Var(value));
  }
  return weights;
}

AttentionResult attention(Tape& tape, const Var& q, const Var& k, const Var& v, const Mechanism& mechanism,
                          const AttentionOptions& options) {
  const ZoneTimer timer(tape.context().zones(), Zone::attention);
  check_operands(q, k, v, mechanism, options);
  const Call call = make_call(tape, q, k, v, mechanism, options);
  AttentionWatch* const watch = AttentionWatch::current();
  if (watch != nullptr && !watch->lets_run(call)) return {};
  AttentionResult result = run_aligned(call);
  check_bias(tape.context(), options, result.output.value());
  if (watch != nullptr) result.output = watch->on_attention(call, result.output);
  return result;
}

}  // namespace fovea
