#include <algorithm>

#include "core/recording.h"
#include "models/network.h"
#include "nn/divided.h"
#include "nn/embedding.h"
#include "nn/output.h"
#include "nn/stack.h"

namespace fovea {
namespace {

// Tokens -> stack -> a distribution over tokens at every row: of the next one (lm), or of the one that was there before
// it was masked (mlm).
class LanguageModel final : public Network {
 public:
  LanguageModel(const nn::Scope& root, const ModelConfig& config)
      : masked_(config.task == Task::mlm),
        pooling_(config.pooling),
        embedding_(root / "embedding", config, nn::EmbeddingSpec::of(config)),
        stack_(root, config),
        head_(root / "head", config, config.vocabulary, embedding_.tokens()) {}

  Var forward(Tape& tape, const Batch& batch) const override { return head_(tape, rows(tape, batch.input, {}).x); }

  // Masked tokens are few: only their rows go through the head.
  Loss loss(Tape& tape, const Batch& batch, const LossOptions& options) const override {
    const auto [x, layout] = rows(tape, batch.input, {});
    const Tensor wanted_here = nn::own_targets(tape.context(), batch.targets, *layout);
    if (!masked_) return report_of_rows(tape, head_.loss(tape, x, wanted_here, options.label_smoothing));
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
    const Index rows(Tensor::from<std::int32_t>(tape.context(), count, places), 0, std::ssize(targets));
    const Var chosen = gather(tape, reshape(tape, x, {x.dim(0) * x.dim(1), x.dim(2)}), rows);
    const Tensor masked = Tensor::wrap(wanted->data(), count, DType::i32, wanted);
    return report_of_rows(tape, head_.loss(tape, chosen, masked, options.label_smoothing));
  }

  Var features(Tape& tape, const Input& input) const override {
    const Rows out = rows(tape, input, {});
    return cast(tape, nn::pool(tape, out.x, *out.layout, pooling_), DType::f32);
  }

  nn::Past new_past() const override { return {std::vector<nn::LayerPast>(stack_.size()), 0}; }

  Var step(Tape& tape, const Input& tokens, const std::vector<nn::Past*>& pasts, const nn::Source&) const override {
    const Rows out = rows(tape, tokens, pasts);
    nn::advance(tokens, pasts);
    return head_(tape, nn::pool(tape, out.x, *out.layout, Pooling::last));
  }

 private:
  struct Rows {
    Var x;  // (b, n, width)
    std::shared_ptr<const nn::Layout> layout;
  };
  Rows rows(Tape& tape, const Input& input, const std::vector<nn::Past*>& pasts) const {
    const nn::Arranged batch = arrange(tape, embedding_.spec(), input, pasts);
    return {stack_(tape, embedding_(tape, batch), batch.layout), batch.layout};
  }

  bool masked_;
  Pooling pooling_;
  nn::Embedding embedding_;
  nn::Stack stack_;
  nn::LanguageHead head_;
};

}  // namespace

std::unique_ptr<Network> make_language_model(const nn::Scope& scope, const ModelConfig& config) {
  return std::make_unique<LanguageModel>(scope, config);
}

}  // namespace fovea
