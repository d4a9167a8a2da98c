#pragma once

#include <memory>
#include <optional>
#include <string>

#include "fovea/pretrained.h"

namespace fovea::python {

// A model, the context it lives in and the tokeniser it came with.
struct OwnedModel {
  std::shared_ptr<Context> context;
  Model model;
  std::optional<Tokenizer> tokenizer = {};
};

std::shared_ptr<Context> context_of(std::uint64_t seed);

}  // namespace fovea::python
