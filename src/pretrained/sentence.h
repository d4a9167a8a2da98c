#pragma once

#include <optional>

#include "fovea/model.h"
#include "io/file.h"

// Folders of sentence-transformers: modules.json names an encoder, how its rows become one vector, and what follows.
namespace fovea::pretrained {

struct Sentence {
  Path encoder = {};  // folder of the encoder
  Pooling pooling = Pooling::mean;
  bool unit = false;            // vectors of length 1
  std::int64_t max_length = 0;  // tokens; 0: as many as the encoder reads

  void apply(ModelConfig& config) const;
};

// Nothing where the folder has no modules.json. Modules that are not built are refused by name.
std::optional<Sentence> read_sentence(const Path& folder);

void write_sentence(const ModelConfig& config, const Path& folder);

}  // namespace fovea::pretrained
