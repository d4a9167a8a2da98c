#include "core/wide.h"
#include "models/network.h"
#include "nn/divided.h"
#include "nn/embedding.h"
#include "nn/output.h"
#include "nn/stack.h"

namespace fovea {
namespace {

// Tokens -> stack -> one vector -> classes, or a number. Two documents go through the same stack and meet as [a, b, a
// b, a - b].
class SequenceClassifier final : public Network {
 public:
  SequenceClassifier(const nn::Scope& root, const ModelConfig& config)
      : pooling_(config.pooling),
        wide_(wide_type(config.dtype)),
        pairs_(config.task == Task::match || config.pairs),
        number_(config.task == Task::regress),
        embedding_(root / "embedding", config, nn::EmbeddingSpec::of(config)),
        stack_(root, config),
        classifier_(root / "classifier", config, (pairs_ ? 4 : 1) * config.width) {}

  Var features(Tape& tape, const Input& input) const override {
    const nn::Arranged batch = arrange(tape, embedding_.spec(), input);
    const Var x = stack_(tape, embedding_(tape, batch), batch.layout);
    return cast(tape, nn::pool(tape, x, *batch.layout, pooling_), wide_);
  }

  Var forward(Tape& tape, const Batch& batch) const override {
    const Var a = features(tape, batch.input);
    if (!pairs_) return classifier_(tape, a);
    const Var b = features(tape, batch.second);
    if (a.dim(0) != b.dim(0)) fail(ErrorCode::shape, "every document needs another one to be compared with", "second");
    const Var difference = add(tape, a, scale(tape, b, -1.0));
    const std::vector<Var> parts = {a, b, mul(tape, a, b), difference};
    return classifier_(tape, concat(tape, parts, 1));
  }

  Loss loss(Tape& tape, const Batch& batch, const LossOptions& options) const override {
    if (!number_) return Network::loss(tape, batch, options);
    const Var guess = forward(tape, batch);
    if (batch.targets.numel() != guess.dim(0))
      fail(ErrorCode::shape, "every text needs the number that it is to be given", "batch.targets");
    return report_of_numbers(tape, guess, batch.targets.reshape({-1, 1}));
  }

 private:
  Pooling pooling_;
  DType wide_;
  bool pairs_, number_;
  nn::Embedding embedding_;
  nn::Stack stack_;
  nn::Classifier classifier_;
};

}  // namespace

std::unique_ptr<Network> make_classifier(const nn::Scope& scope, const ModelConfig& config) {
  return std::make_unique<SequenceClassifier>(scope, config);
}

}  // namespace fovea
