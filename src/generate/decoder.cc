#include "generate/decoder.h"

#include "data/collate.h"

namespace fovea {
namespace {

// The stack that makes the tokens.
const StackConfig& stack_of(const ModelConfig& config) { return config.decoder ? *config.decoder : config; }

gemm::Form form_of(WeightForm weights) {
  switch (weights) {
    case WeightForm::bf16: return gemm::Form::bf16;
    case WeightForm::i8: return gemm::Form::i8;
    default: return gemm::Form::f32;
  }
}

}  // namespace

Decoder::Decoder(Context& context, const Model& model, WeightForm weights) : context_(&context), model_(&model) {
  const Task task = model.config().task;
  if (task != Task::lm && task != Task::seq2seq)
    fail(ErrorCode::unsupported, "this model does not generate", "model.task", "a model for lm or seq2seq");
  std::vector<Tensor> parameters;
  for (const Parameter& p : model.parameters()) parameters.push_back(p.var.value());
  weights_ = std::make_shared<gemm::PackedWeights>(form_of(weights), parameters);
}

std::int64_t Decoder::vocabulary() const {
  const ModelConfig& config = model_->config();
  return translates() && config.decoder_vocabulary > 0 ? config.decoder_vocabulary : config.vocabulary;
}

std::int64_t Decoder::positions() const {
  const ModelConfig& config = model_->config();
  const Positions kind = stack_of(config).positions;
  if (kind != Positions::learned && kind != Positions::sinusoidal) return kUnlimited;
  return translates() && config.decoder_max_length > 0 ? config.decoder_max_length : config.max_length;
}

Tensor Decoder::run(const std::vector<std::span<const std::int32_t>>& tokens, const std::vector<nn::Past*>& pasts,
                    const nn::Source& source) const {
  Tape tape(*context_, {.record = false, .packed = weights_.get()});
  const Input input = packed_rows(*context_, tokens);
  return model_->network().step(tape, input, pasts, source).value().to(*context_, DType::f32).contiguous(*context_);
}

Tensor Decoder::step(const std::vector<std::span<const std::int32_t>>& tokens,
                     const std::vector<nn::Past*>& pasts) const {
  return run(tokens, pasts, {});
}

Tensor Decoder::step(const std::vector<std::span<const std::int32_t>>& tokens, const std::vector<nn::Past*>& pasts,
                     const std::vector<std::span<const std::int32_t>>& sources) const {
  Tape tape(*context_, {.record = false});
  return run(tokens, pasts, model_->network().read_source(tape, packed_rows(*context_, sources)));
}

}  // namespace fovea
