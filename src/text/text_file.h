#pragma once

#include <string>
#include <string_view>

#include "io/file.h"

namespace fovea {

// A text file, unpacked when its name ends in ".xz", without a byte-order mark. Refuses content that is larger than
// `cap` bytes or is no UTF-8 text; see check_text().
std::string read_text(const Path& path, std::size_t cap = std::size_t{1} << 30);

// Refuses UTF-16 and UTF-32, which begin with marks of their own, bytes of zero, and texts of which more than a
// hundredth of the bytes belong to no character. Fewer are taken: each counts as a character of its own.
void check_text(std::string_view text, const Path& path);

}  // namespace fovea
