#pragma once

#include <cstdint>
#include <span>
#include <string>

namespace fovea::viewer {

// The bytes of a PNG file of (height, width, 3) colours.
std::string png_bytes(std::int64_t height, std::int64_t width, std::span<const std::uint8_t> rgb);

}  // namespace fovea::viewer
