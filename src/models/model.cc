#include "fovea/model.h"

#include <fmt/format.h>

#include <cmath>
#include <optional>

#include "core/wide.h"
#include "models/arrange.h"
#include "nn/encoder.h"

namespace fovea {
namespace {

constexpr double kEmbeddingDeviation = 0.02;

ModelConfig checked(ModelConfig config) {
  config.check();
  if (config.vocabulary < 1) fail(ErrorCode::usage, "the size of the vocabulary is not set", "vocabulary");
  if (config.classes < 1) fail(ErrorCode::usage, "the number of classes is not set", "classes");
  return config;
}

// Row p: sin(p w_m) and cos(p w_m) in turn, w_m = 10000^(-2m / width); an odd last column has the sine only.
Tensor sinusoids(const Context& context, std::int64_t rows, std::int64_t width, DType dtype) {
  const Tensor exact = Tensor::empty(context, {rows, width}, DType::f64);
  double* values = exact.data<double>();
  for (std::int64_t c = 0; c < width; ++c) {
    const double w = std::pow(10000.0, -static_cast<double>(c - c % 2) / static_cast<double>(width));
    for (std::int64_t p = 0; p < rows; ++p) {
      const double angle = static_cast<double>(p) * w;
      values[p * width + c] = c % 2 == 0 ? std::sin(angle) : std::cos(angle);
    }
  }
  const Tensor table = Tensor::empty(context, {rows, width}, dtype, Lifetime::persistent);
  table.copy_from(exact);
  return table;
}

// Token and position vectors.
class Embedding {
 public:
  Embedding(const nn::Scope& scope, const ModelConfig& config)
      : config_(&config),
        front_(config.pooling == Pooling::cls ? 1 : 0),
        tokens_(scope.add("tokens", {config.vocabulary + front_, config.width}, Init::normal(kEmbeddingDeviation))) {
    const std::int64_t rows = config.max_length + front_;
    if (config.positions == Positions::learned)
      positions_ = scope.add("positions", {rows, config.width}, Init::normal(kEmbeddingDeviation));
    else if (config.positions == Positions::sinusoidal)
      positions_ = sinusoids(scope.context(), rows, config.width, wide_type(config.dtype));
  }

  // (b, n, width), in the dtype of activations
  Var operator()(Tape& tape, const Arranged& batch) const {
    Var x = embedding(tape, tokens_, batch.ids);
    if (config_->embedding_scale != 1.0) x = scale(tape, x, config_->embedding_scale);
    if (positions_.defined()) x = add(tape, x, embedding(tape, positions_, batch.layout->positions));
    return cast(tape, dropout(tape, x, config_->dropout), config_->dtype);
  }

 private:
  const ModelConfig* config_;
  std::int64_t front_;  // 1: the last id is the token of cls pooling
  Var tokens_, positions_;
};

// Pooled features (sequences, width) -> logits (sequences, classes).
class Classifier {
 public:
  Classifier(const nn::Scope& scope, const ModelConfig& config)
      : out_(scope / "out", config.classifier_hidden > 0 ? config.classifier_hidden : config.width, config.classes) {
    if (config.classifier_hidden > 0)
      hidden_.emplace(scope / "hidden", config.width, config.classifier_hidden,
                      nn::Linear::Options{.activation = Activation::relu});
  }

  Var operator()(Tape& tape, const Var& x) const { return out_(tape, hidden_ ? (*hidden_)(tape, x) : x); }

 private:
  std::optional<nn::Linear> hidden_;
  nn::Linear out_;
};

}  // namespace

struct Model::Impl {
  Impl(Context& context, ModelConfig settings)
      : config(checked(std::move(settings))),
        root(context, wide_type(config.dtype), parameters),
        embedding(root / "embedding", config),
        encoder(root, config),
        classifier(root / "classifier", config) {}

  ModelConfig config;
  std::vector<Parameter> parameters;
  nn::Scope root;
  Embedding embedding;
  nn::Encoder encoder;
  Classifier classifier;
};

Model::Model(Context& context, ModelConfig config)
    : impl_(nn::within("model", [&] { return std::make_unique<Impl>(context, std::move(config)); })) {}
Model::~Model() = default;
Model::Model(Model&&) noexcept = default;
Model& Model::operator=(Model&&) noexcept = default;

const ModelConfig& Model::config() const { return impl_->config; }
const std::vector<Parameter>& Model::parameters() const { return impl_->parameters; }

std::int64_t Model::parameter_count() const {
  std::int64_t count = 0;
  for (const Parameter& p : impl_->parameters) count += p.var.value().numel();
  return count;
}

Var Model::forward(Tape& tape, const Tensor& ids, const Sequences& rows) const {
  const ModelConfig& config = impl_->config;
  const Arranged batch = nn::within("batch", [&] { return arrange(tape.context(), config, ids, rows); });
  return nn::within("model", [&] {
    const Var x = impl_->encoder(tape, impl_->embedding(tape, batch), batch.layout);
    const Sequences& all = batch.layout->rows;
    const Var pooled = config.pooling == Pooling::mean ? mean_pool(tape, x, all) : first_pool(tape, x, all);
    return impl_->classifier(tape, cast(tape, pooled, wide_type(config.dtype)));
  });
}

}  // namespace fovea
