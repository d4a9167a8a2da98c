#include <algorithm>
#include <optional>

#include "core/recording.h"
#include "models/staged.h"
#include "nn/divided.h"
#include "nn/embedding.h"
#include "nn/output.h"

namespace fovea {
namespace {

// Tokens -> stack -> a distribution over tokens at every row: of the next one (lm), or of the one that was there before
// it was masked (mlm).
class LanguageModel final : public StagedNetwork {
 public:
  LanguageModel(const nn::Scope& root, const ModelConfig& config)
      : masked_(config.task == Task::mlm),
        pooling_(config.pooling),
        spec_(nn::EmbeddingSpec::of(config)),
        embedding_(nn::embedding_at(root, config, spec_)),
        stack_(root, config) {
    if (!root.stage().last()) return;
    const bool alone = !embedding_ && config.tied;  // the first rank has the embedding, this one its tokens as well
    const Var tokens = embedding_ ? embedding_->tokens() : alone ? nn::token_table(root / "embedding", spec_) : Var();
    head_.emplace(root / "head", config, config.vocabulary, tokens);
  }

  nn::Source begin(Tape& tape, const Input& input, bool makes) const override {
    const nn::Arranged batch = arrange(tape, spec_, input);
    return {makes ? (*embedding_)(tape, batch) : Var(), batch.layout};
  }
  const nn::Stack& stack() const override { return stack_; }

  Var output(Tape& tape, std::span<const nn::Source> rows) const override { return (*head_)(tape, rows[0].rows); }

  // Masked tokens are few: only their rows go through the head.
  Loss end(Tape& tape, std::span<const nn::Source> rows, const Batch& batch,
           const LossOptions& options) const override {
    const auto& [x, layout] = rows[0];
    const Tensor wanted_here = nn::own_targets(tape.context(), batch.targets, *layout);
    if (!masked_) return report_of_rows(tape, head_->loss(tape, x, wanted_here, options.label_smoothing));
    Recording::refuse("how many tokens are masked differs from batch to batch");
    const std::vector<std::int32_t> targets = wanted_here.to_vector<std::int32_t>();
    std::vector<std::int32_t> places;
    const auto wanted = std::make_shared<std::vector<std::int32_t>>();
    for (std::size_t i = 0; i < targets.size(); ++i) {
      if (targets[i] < 0) continue;
      places.push_back(static_cast<std::int32_t>(i));
      wanted->push_back(targets[i]);
    }
    const Shape count{std::ssize(places)};
    const Index chosen_rows(Tensor::from<std::int32_t>(tape.context(), count, places), 0, std::ssize(targets));
    const Var chosen = gather(tape, reshape(tape, x, {x.dim(0) * x.dim(1), x.dim(2)}), chosen_rows);
    const Tensor masked = Tensor::wrap(wanted->data(), count, DType::i32, wanted);
    return report_of_rows(tape, head_->loss(tape, chosen, masked, options.label_smoothing));
  }

  Var features(Tape& tape, const Input& input) const override {
    const nn::Source out = through(tape, input);
    return cast(tape, nn::pool(tape, out.rows, *out.layout, pooling_), DType::f32);
  }

  nn::Past new_past() const override { return {std::vector<nn::LayerPast>(stack_.size()), 0}; }

  Var step(Tape& tape, const Input& tokens, const std::vector<nn::Past*>& pasts, const nn::Source&) const override {
    const nn::Arranged batch = arrange(tape, spec_, tokens, pasts);
    const Var x = stack_(tape, (*embedding_)(tape, batch), batch.layout);
    nn::advance(tokens, pasts);
    return (*head_)(tape, nn::pool(tape, x, *batch.layout, Pooling::last));
  }

 private:
  bool masked_;
  Pooling pooling_;
  nn::EmbeddingSpec spec_;
  std::optional<nn::Embedding> embedding_;
  nn::Stack stack_;
  std::optional<nn::LanguageHead> head_;
};

}  // namespace

std::unique_ptr<Network> make_language_model(const nn::Scope& scope, const ModelConfig& config) {
  return std::make_unique<LanguageModel>(scope, config);
}

}  // namespace fovea
