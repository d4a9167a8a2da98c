#pragma once

#include <memory>
#include <vector>

#include "fovea/model.h"
#include "nn/embedding.h"
#include "nn/layout.h"
#include "nn/scope.h"

namespace fovea {

class StagedNetwork;

// What a task's model does. One file for each family of tasks.
class Network {
 public:
  virtual ~Network() = default;

  // Itself, where ranks may have its layers in stages.
  virtual const StagedNetwork* staged() const { return nullptr; }

  // Other ranks have rows of its sequences from now on. Refused where there is no form for that.
  virtual void share_rows(const nn::RowSharers& sharers) { sharers_ = sharers; }
  // All of these have the same losses from now on.
  void share_examples(const dist::Group& ranks) { same_examples_ = ranks; }

  // What the task asks for, as Model::forward() has it.
  virtual Var forward(Tape& tape, const Batch& batch) const = 0;

  // By default the cross-entropy of forward() and the targets.
  virtual Loss loss(Tape& tape, const Batch& batch, const LossOptions& options) const;

  // One vector for each sequence, (sequences, width): what `fovea embed` shows.
  virtual Var features(Tape& tape, const Input& input) const;

  // Generation. A past remembers a sequence; what the tokens are made from besides is read once.
  virtual nn::Past new_past() const;
  virtual nn::Source read_source(Tape& tape, const Input& input) const;
  // Tokens that follow on each past -> logits (sequences, vocabulary) after the last of each. `source` is defined at
  // the first step of a model that reads one, and not later. The pasts are moved on.
  virtual Var step(Tape& tape, const Input& tokens, const std::vector<nn::Past*>& pasts,
                   const nn::Source& source) const;

 protected:
  const nn::RowSharers& sharers() const { return sharers_; }
  nn::Arranged arrange(Tape& tape, const nn::EmbeddingSpec& spec, const Input& input,
                       const std::vector<nn::Past*>& pasts = {}) const;
  // What is reported of a loss between classes: of rows, of which this rank has some, or of what every rank has whole.
  Loss report_of_rows(Tape& tape, const ClassLoss& loss) const;
  Loss report_of(Tape& tape, const ClassLoss& loss) const;
  // The cross-entropy of classes that every rank has whole.
  Loss report_of_classes(Tape& tape, const Var& logits, const Tensor& targets, const LossOptions& options) const;
  // The squared error of numbers that every rank has whole.
  Loss report_of_numbers(Tape& tape, const Var& guess, const Tensor& targets) const;
  Var alike(Tape& tape, const Var& loss) const;  // one that all have computed

 private:
  nn::RowSharers sharers_;
  dist::Group same_examples_;
};

// Another stack of a model.
StackSpec stack_spec(const ModelConfig& config, const StackConfig& stack, std::int64_t max_length);

// classify, match, regress
std::unique_ptr<Network> make_classifier(const nn::Scope& scope, const ModelConfig& config);
std::unique_ptr<Network> make_language_model(const nn::Scope& scope, const ModelConfig& config);  // lm, mlm
std::unique_ptr<Network> make_seq2seq(const nn::Scope& scope, const ModelConfig& config);
std::unique_ptr<Network> make_vision(const nn::Scope& scope, const ModelConfig& config);
std::unique_ptr<Network> make_image_text(const nn::Scope& scope, const ModelConfig& config);
std::unique_ptr<Network> make_forecaster(const nn::Scope& scope, const ModelConfig& config);
std::unique_ptr<Network> make_encoder(const nn::Scope& scope, const ModelConfig& config);

}  // namespace fovea
