#pragma once

#include "mechanisms/kind.h"
#include "parallel/division.h"

namespace fovea::divided {

// linformer of divided sequences: every rank compresses its keys and values by its columns of the matrices; what all
// ranks make of a sequence is added up, and every query attends to these slots. No rank sees a key of another one.
AttentionResult slot_attention(const Call& call, const Division& division);

}  // namespace fovea::divided
