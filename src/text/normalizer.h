#pragma once

#include <memory>
#include <vector>

#include "text/aligned.h"
#include "text/settings.h"

namespace fovea::text {

// Changes a text before it is cut: lower case, accents, normal forms, ... Thread-safe.
class Normalizer {
 public:
  virtual ~Normalizer() = default;
  virtual void apply(AlignedText& text) const = 0;
};

std::unique_ptr<Normalizer> read_normalizer(Settings settings);

// Unicode's normal forms: decomposed, and composed again for NFC and NFKC.
struct NormalForm {
  bool compatible = false;
  bool composed = false;
};
void normalize(AlignedText& text, NormalForm form);

// The compiled table of character replacements of a sentencepiece model, base64 as in the file.
std::unique_ptr<Normalizer> make_charsmap(const std::string& base64, const std::string& where);

}  // namespace fovea::text
