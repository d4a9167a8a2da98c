#pragma once

#include <memory>
#include <string>
#include <vector>

#include "text/settings.h"

namespace fovea::text {

// Turns tokens into text: each step changes the list, the end of the chain is joined. Thread-safe.
class Decoder {
 public:
  virtual ~Decoder() = default;
  virtual void apply(std::vector<std::string>& tokens) const = 0;
};

std::unique_ptr<Decoder> read_decoder(Settings settings);

}  // namespace fovea::text
