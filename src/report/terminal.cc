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

}  // namespace fovea
