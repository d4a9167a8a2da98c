#pragma once

#include <optional>

#include "nn/layers.h"
#include "nn/norm_layer.h"
#include "parallel/vocabulary.h"

namespace fovea::nn {

// Features (sequences, in) -> logits (sequences, classes), or a number (sequences, 1), through a hidden layer where the
// model has one.
class Classifier {
 public:
  Classifier(const Scope& scope, const ModelConfig& config, std::int64_t in);

  Var operator()(Tape& tape, const Var& x) const { return out_(tape, hidden_ ? (*hidden_)(tape, x) : x); }

 private:
  std::optional<Linear> hidden_;
  Linear out_;
};

// Rows (..., width) -> logits (..., vocabulary), in the wide type.
class LanguageHead {
 public:
  // `tokens` (vocabulary, width): the embedding, for models that use it here too; else it may be undefined.
  LanguageHead(const Scope& scope, const ModelConfig& config, std::int64_t vocabulary, const Var& tokens);

  Var operator()(Tape& tape, const Var& x) const;
  // The loss of these logits, which are never there as a whole. One target for each row, -1: does not count.
  ClassLoss loss(Tape& tape, const Var& x, const Tensor& targets, double label_smoothing) const;

 private:
  Var before(Tape& tape, Var x) const;  // what the last product reads
  Var weight(Tape& tape) const;         // (width, vocabulary)

  divided::Vocabulary vocabulary_;
  double scale_;
  std::optional<Linear> transform_;
  std::optional<NormLayer> norm_;
  Var tokens_, weight_, bias_;  // (vocabulary, width) where tied, else (width, vocabulary); (vocabulary)
};

}  // namespace fovea::nn
