#pragma once

#include "generate/decoder.h"

namespace fovea {

// What one prompt starts from: the tokens that the model reads first and, for encoder-decoder models, what the encoder
// does.
struct Start {
  std::span<const std::int32_t> tokens, source;
};

struct BeamTask {
  Start start;
  std::int64_t most;  // new tokens at most
};

// Follows the `beams` most likely beginnings of every task at once, all tasks side by side. Beginnings that end are put
// aside; a search is over when none of those still open can be better than `beams` that have ended.
std::vector<Generated> beam_search(const Decoder& decoder, std::span<const BeamTask> tasks,
                                   const GenerateOptions& options, const std::atomic<bool>* stop);

}  // namespace fovea
