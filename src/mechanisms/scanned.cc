#include "mechanisms/scanned.h"

#include <fmt/format.h>

#include "core/visit_device.h"
#include "mechanisms/compose.h"
#include "mechanisms/feature_map.h"
#include "mechanisms/feature_scan_kernels.h"
#include "mechanisms/positions.h"
#include "mechanisms/results.h"
#include "mechanisms/watch.h"
#include "ops/work.h"

namespace fovea {
namespace {

// Everything the engine is told, kept for backward.
struct ScanCall {
  scan::Problem problem;
  std::vector<scan::Piece> pieces;
  std::vector<double> head_log_decay;
  DType decay_type = DType::f32;  // of the caller's log_decay
  std::vector<Sequences::Rows> queries, keys;
  bool final_state = false;
  std::shared_ptr<const FeatureMaps> features;
};
using SharedCall = std::shared_ptr<const ScanCall>;

enum Saved : std::size_t {
  kQ,
  kK,
  kV,
  kLogDecay,
  kO,
  kRest,
  kStatistic,
  kInitialState,
  kFinalState,
  kQFeatures,  // where the engine has made them
  kKFeatures
};

scan::Decay decay_of(const Scanned& scanned) {
  if (scanned.log_decay.defined())
    return scanned.log_decay.shape().rank() == 4 ? scan::Decay::channel : scan::Decay::step;
  return scanned.head_log_decay.empty() ? scan::Decay::none : scan::Decay::head;
}

SharedCall describe(const Call& call, const Scanned& scanned, scan::Map map) {
  auto out = std::make_shared<ScanCall>();
  for (std::size_t s = 0; s < call.queries.size(); ++s) {
    const Sequences::Rows &q = call.queries[s], &k = call.keys[s];
    out->pieces.push_back({q.batch, q.begin, q.count, k.begin, k.count});
  }
  out->head_log_decay = scanned.head_log_decay;
  if (scanned.log_decay.defined()) out->decay_type = scanned.log_decay.dtype();
  out->queries = call.queries;
  out->keys = call.keys;
  out->final_state = call.options.final_state;
  out->features = scanned.features;
  scan::Problem& p = out->problem;
  p.dtype = call.q.dtype();
  p.wide_outputs = scanned.wide;
  p.heads = call.q.dim(2);
  p.kv_heads = call.k.dim(2);
  p.d_k = scanned.features ? scanned.features->directions.dim(1) : call.q.dim(3);
  p.d_v = call.v.dim(3);
  p.pieces = out->pieces;
  p.causal = call.options.causal;
  p.map = map;
  p.decay = decay_of(scanned);
  p.log_decay = p.decay == scan::Decay::head ? out->head_log_decay.data() : nullptr;
  p.denominator = scanned.denominator;
  p.denominator_eps = scanned.denominator_eps;
  p.rms_norm = scanned.rms_norm;
  p.norm_eps = scanned.norm_eps;
  return out;
}

Shape state_shape(const scan::Problem& p) {
  return {static_cast<std::int64_t>(p.pieces.size()), p.kv_heads, p.d_k, scan::state_width(p)};
}

void check_state(const Var& state, const scan::Problem& p) {
  if (!state.defined()) return;
  const Shape expected = state_shape(p);
  if (state.shape() != expected || state.dtype() != wide_type(p.dtype))
    fail(ErrorCode::shape,
         fmt::format("initial_state is {} {}, expected {} {}", name_of(state.dtype()), state.shape().text(),
                     name_of(wide_type(p.dtype)), expected.text()),
         "initial_state");
}

void check_decay(const Var& log_decay, const scan::Problem& p, const Var& k) {
  if (!log_decay.defined()) return;
  Shape expected{k.dim(0), k.dim(1), p.kv_heads};
  if (p.decay == scan::Decay::channel) expected = {k.dim(0), k.dim(1), p.kv_heads, p.d_k};
  if (log_decay.shape() != expected || !is_float(log_decay.dtype()))
    fail(ErrorCode::shape,
         fmt::format("log_decay is {} {}, expected floats {}", name_of(log_decay.dtype()), log_decay.shape().text(),
                     expected.text()),
         "log_decay");
}

// Bidirectional backward starts from the sums that forward ends with. They are kept where they take less memory than
// the keys that would give them again.
bool saves_final_state(const scan::Problem& p) {
  std::int64_t keys = 0;
  for (const scan::Piece& piece : p.pieces) keys += piece.nk;
  return !p.causal && state_shape(p).numel() <= keys * p.kv_heads * p.d_k;
}

void forward(const Context& context, const ScanCall& call, const scan::ForwardTensors& io, const Tensor& q_features,
             const Tensor& k_features) {
  if (!call.features) return scan::forward(context, call.problem, io);
  const FeatureMaps& maps = *call.features;
  const auto features = [&](const FeatureOptions& options, const Tensor& x, const Tensor& y) {
    return kernels::FeatureForward{&options, x, maps.directions, {}, {}, {}, {}, y};
  };
  kernels::FeatureScan made{&call.problem, features(maps.queries, io.in.q, q_features),
                            features(maps.keys, io.in.k, k_features), io};
  made.scan.in.q = made.scan.in.k = {};
  visit_device(context, made, [&]<Device D>() { kernels::feature_scan<D>(context, made); });
}

void backward(const Context& context, const ScanCall& call, const scan::BackwardTensors& io,
              const std::vector<Tensor>& saved) {
  if (!call.features) return scan::backward(context, call.problem, io);
  const FeatureMaps& maps = *call.features;
  const auto features = [&](const FeatureOptions& options, const Tensor& x, const Tensor& y, const Tensor& dx) {
    return kernels::FeatureBackward{&options, x, maps.directions, {}, {}, {}, {}, y, {}, dx, {}, {}};
  };
  kernels::FeatureScanBackward made{&call.problem, features(maps.queries, io.in.q, saved[kQFeatures], io.dq),
                                    features(maps.keys, io.in.k, saved[kKFeatures], io.dk), io};
  made.scan.in.q = made.scan.in.k = made.scan.dq = made.scan.dk = {};
  visit_device(context, made, [&]<Device D>() { kernels::feature_scan_backward<D>(context, made); });
}

void scan_backward(Tape& tape, Node& node) {
  const Context& context = tape.context();
  const ZoneTimer timer(context.zones(), Zone::attention);
  const SharedCall& call = std::any_cast<const SharedCall&>(node.attributes);
  const std::vector<Tensor>& saved = node.saved;
  const DType dtype = call->problem.dtype;
  const Tensor d_o = node.grad(0).defined() ? dense_rows(context, node.grad(0))
                                            : Tensor::zeros(context, saved[kO].shape(), saved[kO].dtype());
  Tensor d_final;
  if (call->final_state && node.grad(1).defined()) d_final = node.grad(1).contiguous(context);
  const Tensor dq = gradient_like(tape, node.inputs[0], saved[kQ], call->queries);
  const Tensor dk = gradient_like(tape, node.inputs[1], saved[kK], call->keys);
  const Tensor dv = gradient_like(tape, node.inputs[2], saved[kV], call->keys);
  const bool state_grad = node.wants(3), decay_grad = node.wants(4);
  const Tensor d_initial = state_grad ? Tensor::empty(context, state_shape(call->problem), wide_type(dtype)) : Tensor();
  const Tensor d_log_decay =
      decay_grad ? output_like(context, saved[kLogDecay].shape(), wide_type(dtype), call->keys) : Tensor();
  backward(context, *call,
           {.in = {saved[kQ], saved[kK], saved[kV], saved[kLogDecay], saved[kInitialState]},
            .o = saved[kO],
            .rest = saved[kRest],
            .statistic = saved[kStatistic],
            .final_state = saved[kFinalState],
            .d_o = d_o,
            .d_final_state = d_final,
            .dq = dq,
            .dk = dk,
            .dv = dv,
            .d_log_decay = d_log_decay,
            .d_initial_state = d_initial},
           saved);
  tape.accumulate(node.inputs[0], dq);
  tape.accumulate(node.inputs[1], dk);
  tape.accumulate(node.inputs[2], dv);
  if (state_grad) tape.accumulate(node.inputs[3], d_initial);
  if (decay_grad) tape.accumulate(node.inputs[4], d_log_decay.to(context, call->decay_type));
}

constexpr Op kScan{"scan_attention", scan_backward};

}  // namespace

Activation activation_of(scan::Map map) {
  switch (map) {
    case scan::Map::elu_plus_one: return Activation::elu_plus_one;
    case scan::Map::elu: return Activation::elu;
    case scan::Map::relu: return Activation::relu;
    case scan::Map::identity: break;
  }
  return Activation::identity;
}

Var with_range(Tape& tape, const Var& x) { return x.dtype() == DType::f16 ? cast(tape, x, DType::f32) : x; }

// States are of features, and so is what a watch is shown.
bool can_make_features(const Call& call) {
  return call.q.dtype() == DType::f32 && !call.options.causal && !call.options.rotary && !call.options.final_state &&
         !call.options.initial_state.defined() && AttentionWatch::current() == nullptr;
}

AttentionResult run_scanned(const Call& call, const Scanned& scanned) {
  Tape& tape = call.tape;
  if (call.options.rotary && call.q.dtype() == DType::f16)
    return run_on_features(call, {with_range(tape, call.q), with_range(tape, call.k)}, scanned);
  const Context& context = tape.context();
  Var q = call.q, k = call.k;
  const bool map_first = call.options.rotary.has_value();
  if (map_first) {  // padding may be NaN, and the slope of the map with it
    q = activate(tape, fill_padding(tape, q, call.options.queries), activation_of(scanned.map));
    k = activate(tape, fill_padding(tape, k, key_sequences(call)), activation_of(scanned.map));
    std::tie(q, k) = rotated(call, q, k);
  }
  const SharedCall described = describe(call, scanned, map_first ? scan::Map::identity : scanned.map);
  const scan::Problem& p = described->problem;
  check_state(call.options.initial_state, p);
  check_decay(scanned.log_decay, p, k);

  const Tensor tq = dense_rows(context, q.value()), tk = dense_rows(context, k.value()),
               tv = dense_rows(context, call.v.value());
  const Tensor log_decay = scanned.log_decay.defined()
                               ? dense_rows(context, scanned.log_decay.value().to(context, wide_type(p.dtype)))
                               : Tensor();
  const Tensor initial =
      call.options.initial_state.defined() ? call.options.initial_state.value().contiguous(context) : Tensor();
  const std::vector<Var> inputs{q, k, call.v, call.options.initial_state, scanned.log_decay};
  const Shape shape{q.dim(0), q.dim(1), q.dim(2), tv.dim(3)};
  const Tensor o = output_like(context, shape, p.output_type(), call.queries);
  const std::int64_t columns = scan::statistic_columns(p);
  const bool keeps_rest = columns > 0 && o.dtype() != wide_type(o.dtype()) && tape.wants_grad(inputs);
  const Tensor rest = keeps_rest ? Tensor::empty(context, shape, o.dtype()) : Tensor();
  const Tensor statistic =
      columns > 0 ? Tensor::empty(context, {q.dim(0), q.dim(1), columns}, wide_type(p.dtype)) : Tensor();
  const bool keeps_state = call.options.final_state || (tape.recording() && saves_final_state(p));
  const Tensor final_state = keeps_state ? Tensor::empty(context, state_shape(p), wide_type(p.dtype)) : Tensor();
  const auto kept_features = [&](const Tensor& x) {
    const bool kept = scanned.features && tape.wants_grad(inputs);
    return kept ? Tensor::empty(context, x.shape().with(3, p.d_k), x.dtype()) : Tensor();
  };
  const Tensor q_features = kept_features(tq), k_features = kept_features(tk);
  forward(context, *described, {{tq, tk, tv, log_decay, initial}, o, rest, statistic, final_state}, q_features,
          k_features);

  std::vector<Tensor> outputs{o};
  if (call.options.final_state) outputs.push_back(final_state);
  const std::vector<Var> results =
      tape.record(kScan, inputs, std::move(outputs),
                  {tq, tk, tv, log_decay, o, rest, statistic, initial, final_state, q_features, k_features}, described);
  if (AttentionWatch* watch = AttentionWatch::current()) watch->on_scan({p, tq, tk, call.v, results[0]});
  return {results[0], {}, results.size() > 1 ? results[1] : Var()};
}

AttentionResult run_on_features(const Call& call, const FeaturePair& features, const Scanned& scanned) {
  Tape& tape = call.tape;
  const DType dtype = features.k.dtype();
  const Call inner{tape,           features.q,   features.k,   cast(tape, call.v, dtype),
                   call.mechanism, call.options, call.queries, call.keys};
  AttentionResult result = run_scanned(inner, scanned);
  if (!scanned.wide) result.output = cast(tape, result.output, call.q.dtype());
  return result;
}

}  // namespace fovea
