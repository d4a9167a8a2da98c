#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "io/file.h"

namespace fovea {

inline constexpr const char* kChecksumsFile = "checksums.json";

// Changes with any change of a single word of eight bytes; some 3 GB/s.
std::uint64_t checksum(std::span<const std::byte> bytes);

// Writes down what the files of a folder hold, those of safetensors tensor by tensor too.
void write_checksums(const Path& folder);

// Refuses a file that is not what its folder's checksums say, naming the tensor where there is one. Files that they do
// not mention, and folders without checksums, are taken as they are.
void check_checksum(const Path& file);
// All of a folder's files; one that is missing is refused as well.
void check_checksums(const Path& folder);

}  // namespace fovea
