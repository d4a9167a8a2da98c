#include "fovea/attention.h"

#include <fmt/format.h>

#include "fovea/zones.h"
#include "mechanisms/kind.h"

namespace fovea {
namespace {

// "attention "nystrom" has no causal form", with what to use instead.
void require_feature(const Mechanism& mechanism, Feature feature, bool wanted, std::string_view what) {
  if (!wanted || mechanism.supports(feature)) return;
  fail(ErrorCode::unsupported, fmt::format("attention \"{}\" has no {}", mechanism.name(), what),
       fmt::format("support matrix: {} x {}", mechanism.name(), name_of(feature)),
       fmt::format("one that has it: fovea list --with {}", name_of(feature)));
}

void check_shapes(const Var& q, const Var& k, const Var& v) {
  for (const auto& [name, x] : {std::pair("q", &q), std::pair("k", &k), std::pair("v", &v)}) {
    if (!x->defined() || x->value().rank() != 4)
      fail(ErrorCode::shape,
           fmt::format("{} must have 4 axes (batch, n, heads, dim), got {}", name,
                       x->defined() ? x->shape().text() : "nothing"),
           name);
    if (!is_float(x->dtype()) || x->dtype() != q.dtype())
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

void check_features(const Mechanism& m, const AttentionOptions& o, bool cross) {
  require_feature(m, o.causal ? Feature::causal : Feature::bidirectional, true,
                  o.causal ? "causal form" : "bidirectional form");
  require_feature(m, Feature::cross, cross, "form for queries and keys of different lengths");
  require_feature(m, Feature::padding, !o.queries.lengths.empty() || !o.keys.lengths.empty(), "padding");
  require_feature(m, Feature::packed, !o.queries.cu_seqlens.empty() || !o.keys.cu_seqlens.empty(), "packed sequences");
  require_feature(m, Feature::scale, o.scale.has_value(), "scale");
  require_feature(m, Feature::dropout, o.dropout_p != 0.0, "weights to drop: set dropout to 0");
  require_feature(m, Feature::bias, o.bias.defined(), "additive bias");
  require_feature(m, Feature::bias, o.mask.defined(), "pairwise mask");
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
  const DType wide = q.dtype() == DType::f64 ? DType::f64 : DType::f32;
  if (o.bias.defined()) {
    check_pairwise(o.bias.shape(), q, k, "bias");
    if (o.bias.dtype() != wide) fail(ErrorCode::shape, fmt::format("bias must be {}", name_of(wide)), "bias");
  }
  if (o.mask.defined()) {
    check_pairwise(o.mask.shape(), q, k, "mask");
    if (o.mask.dtype() != DType::u8) fail(ErrorCode::shape, "mask must be u8, 1 = keep", "mask");
  }
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
  check_features(mechanism, options, cross);
  return call;
}

}  // namespace

AttentionResult attention(Tape& tape, const Var& q, const Var& k, const Var& v, const Mechanism& mechanism,
                          const AttentionOptions& options) {
  const ZoneTimer timer(tape.context().zones(), Zone::attention);
  check_shapes(q, k, v);
  check_values(q, k, options);
  return mechanism.kind().run(make_call(tape, q, k, v, mechanism, options));
}

}  // namespace fovea
