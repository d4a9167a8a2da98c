#include "core/name_list.h"

namespace fovea {
namespace {

// Where the name that starts `text` ends.
std::size_t name_end(std::string_view text) {
  std::size_t comma = text.find(',');
  while (comma != std::string_view::npos) {
    const std::string_view next = text.substr(comma + 1, text.find(',', comma + 1) - comma - 1);
    if (next.find('=') == std::string_view::npos || next.find(':') < next.find('=')) return comma;
    comma = text.find(',', comma + 1);
  }
  return text.size();
}

}  // namespace

std::vector<std::string_view> split_names(std::string_view text) {
  std::vector<std::string_view> names;
  while (true) {
    const std::size_t end = name_end(text);
    names.push_back(text.substr(0, end));
    if (end == text.size()) return names;
    text.remove_prefix(end + 1);
  }
}

}  // namespace fovea
