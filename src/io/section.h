#pragma once

#include <algorithm>
#include <string>
#include <string_view>

#include "io/file.h"

// A file two programs write: what stands before a marker line is one's, the marker and all after it the other's.
namespace fovea {

inline constexpr std::size_t kSectionCap = std::size_t{1} << 22;

inline std::string read_if_there(const Path& path) {
  return is_there(path) ? read_file(path, kSectionCap) : std::string();
}

inline std::string before_marker(const std::string& text, std::string_view marker) {
  return text.substr(0, std::min(text.size(), text.find(marker)));
}

inline std::string from_marker(const std::string& text, std::string_view marker) {
  return text.substr(std::min(text.size(), text.find(marker)));
}

// The part of docs/bench.md that comes from `fovea bench attention --all --docs`.
inline constexpr std::string_view kMechanismSection = "<!-- from here on written by: fovea bench attention --all -->\n";

}  // namespace fovea
