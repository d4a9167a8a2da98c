#include <optional>

#include "core/wide.h"
#include "models/staged.h"
#include "nn/divided.h"
#include "nn/embedding.h"
#include "nn/output.h"

namespace fovea {
namespace {

// Tokens -> stack -> one vector -> classes, or a number. Two documents go through the same stack and meet as [a, b, a
// b, a - b].
class SequenceClassifier final : public StagedNetwork {
 public:
  SequenceClassifier(const nn::Scope& root, const ModelConfig& config)
      : pooling_(config.pooling),
        wide_(wide_type(config.dtype)),
        pairs_(config.task == Task::match || config.pairs),
        number_(config.task == Task::regress),
        spec_(nn::EmbeddingSpec::of(config)),
        embedding_(nn::embedding_at(root, config, spec_)),
        stack_(root, config) {
    if (root.stage().last()) classifier_.emplace(root / "classifier", config, (pairs_ ? 4 : 1) * config.width);
  }

  std::vector<const Input*> inputs(const Batch& batch) const override {
    return pairs_ ? std::vector<const Input*>{&batch.input, &batch.second} : std::vector<const Input*>{&batch.input};
  }
  nn::Source begin(Tape& tape, const Input& input, bool makes) const override {
    const nn::Arranged batch = arrange(tape, spec_, input);
    return {makes ? (*embedding_)(tape, batch) : Var(), batch.layout};
  }
  const nn::Stack& stack() const override { return stack_; }

  Var features(Tape& tape, const Input& input) const override { return pooled(tape, through(tape, input)); }

  Var output(Tape& tape, std::span<const nn::Source> rows) const override {
    const Var a = pooled(tape, rows[0]);
    if (!pairs_) return (*classifier_)(tape, a);
    const Var b = pooled(tape, rows[1]);
    if (a.dim(0) != b.dim(0)) fail(ErrorCode::shape, "every document needs another one to be compared with", "second");
    const Var difference = add(tape, a, scale(tape, b, -1.0));
    const std::vector<Var> parts = {a, b, mul(tape, a, b), difference};
    return (*classifier_)(tape, concat(tape, parts, 1));
  }

  Loss end(Tape& tape, std::span<const nn::Source> rows, const Batch& batch,
           const LossOptions& options) const override {
    const Var guess = output(tape, rows);
    if (!number_) return report_of_classes(tape, guess, batch.targets, options);
    if (batch.targets.numel() != guess.dim(0))
      fail(ErrorCode::shape, "every text needs the number that it is to be given", "batch.targets");
    return report_of_numbers(tape, guess, batch.targets.reshape({-1, 1}));
  }

 private:
  Var pooled(Tape& tape, const nn::Source& x) const {
    return cast(tape, nn::pool(tape, x.rows, *x.layout, pooling_), wide_);
  }

  Pooling pooling_;
  DType wide_;
  bool pairs_, number_;
  nn::EmbeddingSpec spec_;
  std::optional<nn::Embedding> embedding_;
  nn::Stack stack_;
  std::optional<nn::Classifier> classifier_;
};

}  // namespace

std::unique_ptr<Network> make_classifier(const nn::Scope& scope, const ModelConfig& config) {
  return std::make_unique<SequenceClassifier>(scope, config);
}

}  // namespace fovea
