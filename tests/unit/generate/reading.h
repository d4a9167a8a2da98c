#pragma once

#include "data/collate.h"
#include "fovea/generate.h"

namespace fovea {

// What a model reads of one sequence or, where there is a source, of its translation.
inline Batch reading_of(const Context& context, const Tokens& tokens, const Tokens& source) {
  Batch batch;
  batch.input = packed_rows<std::int32_t>(context, {tokens});
  if (!source.empty()) {
    batch.second = batch.input;
    batch.input = packed_rows<std::int32_t>(context, {source});
  }
  return batch;
}

}  // namespace fovea
