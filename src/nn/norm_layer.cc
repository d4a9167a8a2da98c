#include "nn/norm_layer.h"

#include "nn/divided.h"

namespace fovea::nn {
namespace {

// Statistics over positions would let a token see later ones.
void check_causal(const StackConfig& config) {
  if (!config.causal || (config.norm != StackNorm::batch && config.norm != StackNorm::instance)) return;
  fail(ErrorCode::unsupported, "this norm mixes positions, so that tokens would see later ones", "norm",
       "layer, rms or group");
}

}  // namespace

NormLayer::NormLayer(const Scope& scope, const StackConfig& config)
    : kind_(config.norm), eps_(config.norm_eps), groups_(config.norm_groups), causal_(config.causal) {
  check_causal(config);
  const Shape width{config.width};
  if (config.norm_affine) gain_ = scope.add("gain", width, Init::ones());
  if (config.norm_affine && kind_ != StackNorm::rms && kind_ != StackNorm::rms_a)
    bias_ = scope.add("bias", width, Init::zeros());
  if (kind_ != StackNorm::batch) return;
  running_mean_ = scope.add_drawn("mean", width, Init::zeros()).value();
  running_var_ = scope.add_drawn("variance", width, Init::ones()).value();
}

Norm NormLayer::row_norm() const {
  constexpr NormKind kKinds[] = {NormKind::layer, NormKind::rms, NormKind::rms_a};
  return {.kind = kKinds[static_cast<std::size_t>(kind_)], .eps = eps_, .gain = gain_, .bias = bias_};
}

// x (b, n, width) has all rows.
Var NormLayer::over_channels(Tape& tape, const Var& x, const Sequences& rows) const {
  if (kind_ == StackNorm::batch)
    return batch_norm(
        tape, x, rows,
        {.gain = gain_, .bias = bias_, .running_mean = running_mean_, .running_var = running_var_, .eps = eps_});
  if (kind_ == StackNorm::instance) return instance_norm(tape, x, rows, {.gain = gain_, .bias = bias_, .eps = eps_});
  return group_norm(tape, x, rows,
                    {.groups = groups_, .gain = gain_, .bias = bias_, .eps = eps_, .per_token = causal_});
}

Var NormLayer::operator()(Tape& tape, const Var& x, const Layout& layout) const {
  if (by_rows()) return normalize(tape, x, row_norm());
  return own(tape, over_channels(tape, whole(tape, x, layout), whole_rows(layout)), layout);
}

AddNorm NormLayer::add(Tape& tape, const Var& x, const Var& branch, double dropout_p, const Layout& layout) const {
  if (by_rows() && !layout.division) return add_norm(tape, x, branch, dropout_p, row_norm());
  const Var kept = dropout(tape, branch, dropout_p, layout);
  if (by_rows()) return add_norm(tape, x, kept, 0.0, row_norm());
  const Var sum = fovea::add(tape, x, kept);
  return {sum, (*this)(tape, sum, layout)};
}

}  // namespace fovea::nn
