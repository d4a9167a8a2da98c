#pragma once

#include <limits>
#include <memory>
#include <span>
#include <vector>

#include "fovea/generate.h"
#include "gemm/packed.h"
#include "models/network.h"

namespace fovea {

inline constexpr std::int64_t kUnlimited = std::numeric_limits<std::int64_t>::max();

// What one sequence reads in a step: the tokens that follow on its past and, at the first step of an encoder-decoder
// model, what is to be translated.
struct Reading {
  nn::Past* past;
  std::span<const std::int32_t> tokens, source = {};
};

// A model that is read forwards, a few tokens at a time.
class Decoder {
 public:
  Decoder(Context& context, const Model& model, WeightForm weights);

  const Model& model() const { return *model_; }
  Context& context() const { return *context_; }
  Tape& tape() const { return *tape_; }  // records nothing
  bool translates() const { return model_->config().task == Task::seq2seq; }
  std::int64_t vocabulary() const;
  std::int64_t positions() const;  // tokens that a sequence can have; kUnlimited where no table of positions ends it

  nn::Past new_past() const { return model_->network().new_past(); }
  // Logits f32 (readings, vocabulary) of what comes next in each sequence. A sequence gets the same bits in any
  // company: those that read little share products by packed weights, where rows do not see each other; those that read
  // more have the model's own weights, each by itself.
  Tensor step(std::span<const Reading> readings) const;

 private:
  Tensor run(Tape& tape, std::span<const Reading> readings) const;

  Context* context_;
  const Model* model_;
  std::shared_ptr<const gemm::PackedWeights> weights_;
  std::unique_ptr<Tape> tape_, packed_;
};

}  // namespace fovea
