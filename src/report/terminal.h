#pragma once

#include <string>
#include <string_view>

namespace fovea {

// What the place that text goes to can show.
struct Terminal {
  bool interactive = false;  // a person's terminal, which can be redrawn
  bool colour = false;       // bold and colours; never with NO_COLOR or TERM=dumb
  int width = 80;

  static Terminal of(int descriptor);
};

// Columns a text takes: code points, not bytes.
std::size_t text_width(std::string_view utf8);
std::string pad_left(std::string_view text, std::size_t width);
std::string pad_right(std::string_view text, std::size_t width);
std::string_view cut_right(std::string_view utf8, std::size_t width);  // at most so many columns of it
// Lines that are wider, broken between words; what goes on stands below the text that it belongs to.
std::string folded(std::string_view utf8, std::size_t width);

}  // namespace fovea
