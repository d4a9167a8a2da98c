#pragma once

#include <limits>
#include <span>
#include <vector>

#include "fovea/generate.h"
#include "gemm/packed.h"
#include "models/network.h"

namespace fovea {

inline constexpr std::int64_t kUnlimited = std::numeric_limits<std::int64_t>::max();

// A model that is read forwards, a few tokens at a time.
class Decoder {
 public:
  Decoder(Context& context, const Model& model, WeightForm weights);

  const Model& model() const { return *model_; }
  Context& context() const { return *context_; }
  bool translates() const { return model_->config().task == Task::seq2seq; }
  std::int64_t vocabulary() const;
  std::int64_t positions() const;  // tokens that a sequence can have; kUnlimited where no table of positions ends it

  nn::Past new_past() const { return model_->network().new_past(); }
  // Tokens that follow on each past -> logits f32 (sequences, vocabulary) of what comes next.
  Tensor step(const std::vector<std::span<const std::int32_t>>& tokens, const std::vector<nn::Past*>& pasts) const;
  // The first step of an encoder-decoder model, which also reads what is to be translated.
  Tensor step(const std::vector<std::span<const std::int32_t>>& tokens, const std::vector<nn::Past*>& pasts,
              const std::vector<std::span<const std::int32_t>>& sources) const;

 private:
  Tensor run(const std::vector<std::span<const std::int32_t>>& tokens, const std::vector<nn::Past*>& pasts,
             const nn::Source& source) const;

  Context* context_;
  const Model* model_;
  std::shared_ptr<const gemm::PackedWeights> weights_;
};

}  // namespace fovea
