#include "nn/output.h"

#include "core/wide.h"

namespace fovea::nn {

Classifier::Classifier(const Scope& scope, const ModelConfig& config, std::int64_t in)
    : out_(scope / "out", config.classifier_hidden > 0 ? config.classifier_hidden : in,
           config.task == Task::regress ? 1 : config.classes) {
  if (config.classifier_hidden > 0)
    hidden_.emplace(scope / "hidden", in, config.classifier_hidden,
                    Linear::Options{.activation = config.classifier_activation});
}

LanguageHead::LanguageHead(const Scope& scope, const ModelConfig& config, std::int64_t vocabulary, const Var& tokens)
    : vocabulary_{scope.ranks(), vocabulary}, scale_(config.head_scale) {
  const std::int64_t width = tokens.defined() ? tokens.dim(1) : config.width;
  if (config.head_transform) {
    transform_.emplace(scope / "transform", config.width, config.width,
                       Linear::Options{.activation = config.activation, .deviation = config.init_deviation});
    StackConfig rows = config;  // chosen rows have no neighbours
    if (rows.norm > StackNorm::rms_a) rows.norm = StackNorm::layer;
    norm_.emplace(scope / "norm", rows);
  }
  if (config.tied)
    tokens_ = tokens;
  else
    weight_ =
        scope.add("weight", {width, vocabulary},
                  config.init_deviation > 0.0 ? Init::normal(config.init_deviation) : Init::xavier(width, vocabulary),
                  true, {1, {vocabulary}});
  if (config.head_bias) bias_ = scope.add("bias", {vocabulary}, Init::zeros(), false, {0, {vocabulary}});
}

Var LanguageHead::before(Tape& tape, Var x) const {
  if (transform_) x = (*norm_)(tape, (*transform_)(tape, x), {});
  return scale_ != 1.0 ? scale(tape, x, scale_) : x;
}

Var LanguageHead::weight(Tape& tape) const { return weight_.defined() ? weight_ : transpose(tape, tokens_, 0, 1); }

Var LanguageHead::operator()(Tape& tape, const Var& x) const {
  const Var logits = cast(tape, linear(tape, before(tape, x), weight(tape), bias_), wide_type(x.dtype()));
  return divided::join_tokens(tape, logits, vocabulary_);
}

ClassLoss LanguageHead::loss(Tape& tape, const Var& x, const Tensor& targets, double label_smoothing) const {
  const Var rows = reshape(tape, before(tape, x), {-1, x.dim(-1)});
  const Tensor dense = targets.is_contiguous() ? targets : targets.clone(tape.context());
  return divided::linear_class_loss(tape, rows, weight(tape), bias_, dense.reshape({-1}),
                                    {.label_smoothing = label_smoothing}, vocabulary_);
}

}  // namespace fovea::nn
