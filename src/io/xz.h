#pragma once

#include <cstddef>
#include <string>

#include "io/file.h"

namespace fovea {

// The whole file, unpacked when its name ends in ".xz". Refuses content larger than `cap` bytes, before or after
// unpacking; what unpacks to more than memory_for() its size (a small packed file may hold any number of zeros) or
// needs a dictionary larger than that of `xz -9`; and a packed file that is damaged or cut short.
std::string read_maybe_xz(const Path& path, std::size_t cap = std::size_t{1} << 30);

// The first `bytes` of the same, or less where the file is shorter: to look at what it is.
std::string read_head(const Path& path, std::size_t bytes);

}  // namespace fovea
