#include "models/network.h"

#include <fmt/format.h>

#include "ops/loss.h"
#include "parallel/rows.h"

namespace fovea {
namespace {

[[noreturn]] void refuse(const char* what) {
  fail(ErrorCode::unsupported, fmt::format("this model {}", what), "model.task");
}

}  // namespace

StackSpec stack_spec(const ModelConfig& config, const StackConfig& stack, std::int64_t max_length) {
  StackSpec spec;
  static_cast<StackConfig&>(spec) = stack;
  spec.max_length = max_length;
  spec.dtype = config.dtype;
  spec.checkpointing = config.checkpointing;
  return spec;
}

nn::Arranged Network::arrange(Tape& tape, const nn::EmbeddingSpec& spec, const Input& input,
                              const std::vector<nn::Past*>& pasts) const {
  return tape.at("batch", [&] { return nn::arrange(tape.context(), spec, input, pasts, sharers_); });
}

Loss Network::report_of_rows(Tape& tape, const ClassLoss& loss) const {
  const ClassLoss all = divided::mean_of_all(tape, loss, sharers_.ranks);
  return {.value = all.value, .asked = all.asked, .correct = all.correct};
}

Loss Network::report_of(Tape& tape, const ClassLoss& loss) const {
  return {.value = alike(tape, loss.value), .asked = loss.asked, .correct = loss.correct};
}

Loss Network::report_of_classes(Tape& tape, const Var& logits, const Tensor& targets,
                                const LossOptions& options) const {
  return report_of(tape, class_loss(tape, logits, targets, {.label_smoothing = options.label_smoothing}));
}

Var Network::alike(Tape& tape, const Var& loss) const { return divided::alike(tape, loss, same_examples_); }

Loss Network::report_of_numbers(Tape& tape, const Var& guess, const Tensor& targets) const {
  const Tensor wanted = targets.to(tape.context(), guess.dtype());
  Loss loss;
  loss.value = alike(tape, mse(tape, guess, wanted));
  loss.asked = Tensor::empty(tape.context(), {}, DType::f64);
  loss.asked.fill(static_cast<double>(wanted.numel()));
  loss.deviation = sum_of_errors(tape.context(), guess.value(), wanted);
  return loss;
}

Loss Network::loss(Tape& tape, const Batch& batch, const LossOptions& options) const {
  return report_of_classes(tape, forward(tape, batch), batch.targets, options);
}

Var Network::features(Tape&, const Input&) const { refuse("has no vectors for whole inputs"); }
nn::Past Network::new_past() const { refuse("does not generate"); }
nn::Source Network::read_source(Tape&, const Input&) const { return {}; }
Var Network::step(Tape&, const Input&, const std::vector<nn::Past*>&, const nn::Source&) const {
  refuse("does not generate");
}

}  // namespace fovea
