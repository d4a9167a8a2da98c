#include "report/terminal.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>

namespace fovea {
namespace {

constexpr int kNarrowest = 20;  // less is no terminal's width

bool set_and_not_empty(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr && *value != '\0';
}

bool begins_character(char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; }

// Where the lines that go on with this one begin: below its last column if it is indented as tables are, else a little
// in.
std::size_t hanging_indent(std::string_view line, std::size_t width) {
  const std::size_t first = line.find_first_not_of(' ');
  const std::size_t gap = first == 0 ? std::string_view::npos : line.find("  ", first);
  if (gap == std::string_view::npos) return first + (first == 0 ? 2 : 0);
  const std::size_t column = line.find_first_not_of(' ', gap);
  return column <= width / 2 ? column : first;
}

std::string folded_line(std::string_view line, std::size_t width) {
  if (text_width(line) <= width || line.find_first_not_of(' ') == std::string_view::npos) return std::string(line);
  const std::string indent(hanging_indent(line, width), ' ');
  std::string out, rest(line);
  for (std::size_t begin = line.find_first_not_of(' '); text_width(rest) > width; begin = indent.size()) {
    std::size_t end = cut_right(rest, width + 1).rfind(' ');
    if (end == std::string::npos || end < begin) end = rest.find(' ', begin);  // a word that does not fit
    const std::size_t next = rest.find_first_not_of(' ', end);
    if (next == std::string::npos) break;
    out += rest.substr(0, rest.find_last_not_of(' ', end) + 1) + "\n";
    rest = indent + rest.substr(next);
  }
  return out + rest;
}

std::string spaces(std::string_view text, std::size_t width) {
  const std::size_t used = text_width(text);
  return std::string(used < width ? width - used : 0, ' ');
}

}  // namespace

Terminal Terminal::of(int descriptor) {
  Terminal terminal;
  if (const char* columns = std::getenv("COLUMNS"); columns != nullptr && std::atoi(columns) >= kNarrowest)
    terminal.width = std::atoi(columns);
  if (::isatty(descriptor) == 0) return terminal;
  const char* kind = std::getenv("TERM");
  const bool dumb = kind == nullptr || std::string_view(kind) == "dumb";
  terminal.interactive = !dumb;
  terminal.colour = !dumb && !set_and_not_empty("NO_COLOR");
  winsize size{};
  if (::ioctl(descriptor, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) terminal.width = size.ws_col;
  return terminal;
}

std::size_t text_width(std::string_view utf8) {
  return static_cast<std::size_t>(std::count_if(utf8.begin(), utf8.end(), begins_character));
}

std::string pad_left(std::string_view text, std::size_t width) { return spaces(text, width) + std::string(text); }
std::string pad_right(std::string_view text, std::size_t width) { return std::string(text) + spaces(text, width); }

std::string_view cut_right(std::string_view utf8, std::size_t width) {
  std::size_t end = 0;
  for (std::size_t seen = 0; end < utf8.size(); ++end)
    if (begins_character(utf8[end]) && seen++ == width) break;
  return utf8.substr(0, end);
}

std::string folded(std::string_view utf8, std::size_t width) {
  std::string out;
  while (true) {
    const std::size_t end = utf8.find('\n');
    out += folded_line(utf8.substr(0, end), width);
    if (end == std::string_view::npos) return out;
    out += '\n';
    utf8.remove_prefix(end + 1);
  }
}

}  // namespace fovea
