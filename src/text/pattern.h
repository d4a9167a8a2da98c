#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "text/aligned.h"
#include "text/settings.h"

namespace fovea::text {

// A regular expression or a plain string to look for, as tokeniser files write them: {"Regex": "\\s+"} or
// {"String": " "}. Thread-safe.
class Pattern {
 public:
  static Pattern regex(const std::string& expression, const std::string& where);
  static Pattern plain(std::string text);
  static Pattern read(const JsonMap& json, const std::string& where);

  // Where it matches inside text[within], in order, not overlapping; the text outside is not seen. Valid UTF-8.
  void find(std::string_view text, Range within, std::vector<Range>& matches) const;

 private:
  struct Code;
  Pattern() = default;

  std::string plain_;
  std::shared_ptr<const Code> code_;  // null: plain
};

// What becomes of the separators a split finds: "a-b--c" cut at "-" gives
//   removed a|b|c, isolated a|-|b|-|-|c, previous a-|b-|-|c, next a|-b|-|-c, contiguous a|-|b|--|c
enum class Behaviour : std::uint8_t { removed, isolated, previous, next, contiguous };
Behaviour read_behaviour(Settings& settings, Behaviour fallback);

// Cuts a part of a text and appends the pieces that are not empty. The separators are the matches inside it or, the
// other way round, what lies between them.
struct Cut {
  Behaviour behaviour = Behaviour::isolated;
  bool invert = false;
};
void cut(Range whole, const std::vector<Range>& matches, Cut how, std::vector<Range>& pieces);

}  // namespace fovea::text
