#include "core/wide.h"
#include "models/network.h"
#include "nn/divided.h"
#include "nn/embedding.h"
#include "nn/output.h"
#include "nn/stack.h"
#include "nn/vision.h"

namespace fovea {
namespace {

// Tokens or patches -> stack: their rows, and one vector for the whole.
class Encoder final : public Network {
 public:
  Encoder(const nn::Scope& root, const ModelConfig& config)
      : pooling_(config.pooling), wide_(wide_type(config.dtype)), unit_(config.unit_features) {
    if (config.image) {
      vision_.emplace(root, config, config, config.pooling == Pooling::cls);
    } else {
      embedding_.emplace(root / "embedding", config, nn::EmbeddingSpec::of(config));
      stack_.emplace(root, config);
    }
    if (config.classifier_hidden > 0)
      hidden_.emplace(root / "classifier" / "hidden", config.width, config.classifier_hidden,
                      nn::Linear::Options{.activation = config.classifier_activation});
  }

  Var forward(Tape& tape, const Batch& batch) const override {
    const nn::Source out = rows(tape, batch.input);
    return cast(tape, nn::whole(tape, out.rows, *out.layout), wide_);
  }

  Loss loss(Tape&, const Batch&, const LossOptions&) const override {
    fail(ErrorCode::unsupported, "vectors alone have nothing to be trained for", "model.task",
         "classify, match or mlm on top of the same layers");
  }

  Var features(Tape& tape, const Input& input) const override {
    const nn::Source out = rows(tape, input);
    Var x = cast(tape, nn::pool(tape, out.rows, *out.layout, pooling_), wide_);
    if (hidden_) x = (*hidden_)(tape, x);
    return unit_ ? l2_normalize(tape, x) : x;
  }

 private:
  nn::Source rows(Tape& tape, const Input& input) const {
    if (vision_) return (*vision_)(tape, input.values, sharers());
    const nn::Arranged batch = arrange(tape, embedding_->spec(), input);
    return {(*stack_)(tape, (*embedding_)(tape, batch), batch.layout), batch.layout};
  }

  Pooling pooling_;
  DType wide_;
  bool unit_;
  std::optional<nn::VisionStack> vision_;
  std::optional<nn::Embedding> embedding_;
  std::optional<nn::Stack> stack_;
  std::optional<nn::Linear> hidden_;
};

}  // namespace

std::unique_ptr<Network> make_encoder(const nn::Scope& scope, const ModelConfig& config) {
  return std::make_unique<Encoder>(scope, config);
}

}  // namespace fovea
