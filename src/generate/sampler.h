#pragma once

#include <span>

#include "fovea/generate.h"

namespace fovea {

// Logits of tokens that stand in `seen` come nearer to "no".
void penalize(std::span<float> logits, std::span<const std::int32_t> seen, double penalty);

// Refuses logits that are not numbers.
void check_logits(std::span<const float> logits);

// Which of the model's draws this is.
struct Draw {
  std::uint64_t seed = 0;
  std::int64_t sequence = 0, step = 0;
};

// A token by temperature, top_k and top_p. Of tokens that are equally likely the one with the smaller id comes first.
std::int32_t choose(std::span<const float> logits, const GenerateOptions& options, const Draw& draw);

}  // namespace fovea
