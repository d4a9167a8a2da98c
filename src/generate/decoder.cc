#include "generate/decoder.h"

#include <algorithm>

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

// Readings that run together. One token has kernels of its own, and so has the second kind; of the third each runs
// alone.
enum class Amount : std::uint8_t { one, few, many };

Amount amount_of(const Reading& reading) {
  const std::int64_t most = std::max(std::ssize(reading.tokens), std::ssize(reading.source));
  if (most > gemm::kPackedRows) return Amount::many;
  return std::ssize(reading.tokens) == 1 ? Amount::one : Amount::few;
}

}  // namespace

Decoder::Decoder(Context& context, const Model& model, WeightForm weights) : context_(&context), model_(&model) {
  const Task task = model.config().task;
  if (task != Task::lm && task != Task::seq2seq)
    fail(ErrorCode::unsupported, "this model does not generate", "model.task", "a model for lm or seq2seq");
  std::vector<Tensor> parameters;
  for (const Parameter& p : model.parameters()) parameters.push_back(p.var.value());
  weights_ = std::make_shared<gemm::PackedWeights>(form_of(weights), parameters);
  tape_ = std::make_unique<Tape>(context, TapeOptions{.record = false});
  packed_ = std::make_unique<Tape>(context, TapeOptions{.record = false, .packed = weights_.get()});
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

Tensor Decoder::run(Tape& tape, std::span<const Reading> readings) const {
  std::vector<std::span<const std::int32_t>> tokens, sources;
  std::vector<nn::Past*> pasts;
  for (const Reading& reading : readings) {
    tokens.push_back(reading.tokens);
    pasts.push_back(reading.past);
    if (!reading.source.empty()) sources.push_back(reading.source);
  }
  if (!sources.empty() && sources.size() != readings.size())
    fail(ErrorCode::internal, "some sequences of a step have a source and others have none", "readings");
  const nn::Source source =
      sources.empty() ? nn::Source{} : model_->network().read_source(tape, packed_rows(*context_, sources));
  const Var logits = model_->network().step(tape, packed_rows(*context_, tokens), pasts, source);
  tape.take_penalties();
  return logits.value().to(*context_, DType::f32).contiguous(*context_);
}

Tensor Decoder::step(std::span<const Reading> readings) const {
  std::vector<std::vector<std::size_t>> groups(2);  // numbers of readings
  for (std::size_t i = 0; i < readings.size(); ++i) {
    const Amount amount = amount_of(readings[i]);
    if (amount == Amount::many)
      groups.push_back({i});
    else
      groups[static_cast<std::size_t>(amount)].push_back(i);
  }
  const Tensor logits = Tensor::empty(*context_, {std::ssize(readings), vocabulary()});
  for (std::size_t g = 0; g < groups.size(); ++g) {
    std::vector<Reading> group;
    for (const std::size_t i : groups[g]) group.push_back(readings[i]);
    if (group.empty()) continue;
    const Tensor rows = run(g < 2 ? *packed_ : *tape_, group);
    if (group.size() == readings.size()) return rows;
    for (std::size_t row = 0; row < group.size(); ++row)
      logits.select(0, static_cast<std::int64_t>(groups[g][row]))
          .copy_from(rows.select(0, static_cast<std::int64_t>(row)));
  }
  return logits;
}

}  // namespace fovea
