#pragma once

#include <memory>
#include <vector>

#include "text/aligned.h"
#include "text/settings.h"

namespace fovea::text {

// A text and where it is cut: the pieces are in order, apart or adjacent, and none is empty.
struct Pieces {
  AlignedText text;
  std::vector<Range> ranges;
};

// Cuts a text into the pieces that a model encodes one by one. Thread-safe.
class PreTokenizer {
 public:
  virtual ~PreTokenizer() = default;
  virtual void apply(Pieces& pieces) const = 0;
};

// The stages in order, a Sequence being those inside it.
struct PreTokenizers {
  std::vector<std::unique_ptr<PreTokenizer>> stages;
  bool byte_level = false;  // the last stage is byte-level and leaves bytes, not the characters that stand for them
  bool only_gpt2 = false;   // nothing but GPT-2's cut: works on any bytes
  bool at_spaces = false;   // white space separates pieces and is dropped
};

// With `raw_bytes` a byte-level stage at the end leaves the bytes as they are, for a model that reads bytes.
PreTokenizers read_pre_tokenizers(Settings settings, bool raw_bytes);

}  // namespace fovea::text
