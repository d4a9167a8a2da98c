#pragma once

#include "fovea/inspect.h"

namespace fovea::inspection {

// Tells of every head of a layer how it treats delimiters and tagged words, and its class anew. `keys` are notes of
// what is read; words count where the same text reads.
void judge_tokens(const TokenNotes& keys, LayerRecord& layer);

}  // namespace fovea::inspection
