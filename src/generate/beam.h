#pragma once

#include "generate/decoder.h"

namespace fovea {

// What one prompt starts from: the tokens that the model reads first and, for encoder-decoder models, what the encoder
// does.
struct Start {
  std::span<const std::int32_t> tokens, source;
};

// Follows the `beams` most likely beginnings at once. Beginnings that end are put aside; the search is over when none
// of those still open can be better than `beams` that have ended. `most`: new tokens at most.
Generated beam_search(const Decoder& decoder, const Start& start, const GenerateOptions& options, std::int64_t most,
                      const std::atomic<bool>* stop);

}  // namespace fovea
