#pragma once

#include <optional>

#include "data/text/masker.h"
#include "data/text/tokens.h"
#include "fovea/data.h"

namespace fovea {

struct LanguageOptions {
  std::int64_t length = 256;            // tokens of a window
  std::optional<Masking> masking = {};  // none: the next token is asked for
  // Windows begin at a place drawn anew for every batch, so that epochs differ; otherwise at multiples of the length,
  // and every token is asked for exactly once.
  bool training = false;
  double characters_per_token = 0.0;  // of the text; 0: unknown
};

// A text in windows of equal length: ids (b, n), targets (b, n). A text shorter than a window is one shorter window;
// one of fewer than two tokens has none.
std::shared_ptr<const Split> language_split(std::shared_ptr<const TokenSource> tokens, const LanguageOptions& options);

}  // namespace fovea
