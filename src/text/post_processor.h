#pragma once

#include <array>
#include <functional>
#include <memory>
#include <vector>

#include "fovea/tokenizer.h"
#include "text/settings.h"

namespace fovea::text {

// What a step that moves offsets needs to know: the texts, and how the tokens are written.
struct Sources {
  std::array<std::string_view, 2> texts;
  // Characters of white space that a token begins and ends with; the offset is where its text is.
  std::function<std::pair<std::uint32_t, std::uint32_t>(std::int32_t id, std::string_view text)> spaces;
};

// A run of tokens of one text, or special tokens that were put in (source -1).
struct Run {
  int source = 0;
  Encoding tokens;
};

// Works on the encodings of one text or two: adds special tokens, sets types, trims offsets. Thread-safe.
class PostProcessor {
 public:
  virtual ~PostProcessor() = default;
  virtual std::size_t added(bool pair) const = 0;  // special tokens it puts in
  virtual void apply(std::vector<Run>& runs, const Sources& sources, bool special_tokens) const = 0;
};

std::unique_ptr<PostProcessor> read_post_processor(Settings settings);

}  // namespace fovea::text
