#include "inspect_page/picture.h"

#include <zlib.h>

#include <string_view>

#include "inspect_page/block.h"

namespace fovea::viewer {
namespace {

void put(std::string& out, std::uint32_t value) {
  for (int k = 3; k >= 0; --k) out += static_cast<char>(value >> (8 * k) & 0xff);
}

void put_chunk(std::string& out, std::string_view type, std::string_view content) {
  put(out, static_cast<std::uint32_t>(content.size()));
  const std::string body = std::string(type) + std::string(content);
  out += body;
  put(out, static_cast<std::uint32_t>(
               crc32(0, reinterpret_cast<const Bytef*>(body.data()), static_cast<uInt>(body.size()))));
}

}  // namespace

std::string png_bytes(std::int64_t height, std::int64_t width, std::span<const std::uint8_t> rgb) {
  std::string out = "\x89PNG\r\n\x1a\n", head, rows;
  put(head, static_cast<std::uint32_t>(width));
  put(head, static_cast<std::uint32_t>(height));
  head += std::string("\x08\x02\x00\x00\x00", 5);  // 8 bits, RGB, nothing special
  const std::size_t line = static_cast<std::size_t>(width) * 3;
  for (std::size_t row = 0; row < static_cast<std::size_t>(height); ++row) {
    rows += '\0';  // no filter
    for (const std::uint8_t byte : rgb.subspan(row * line, line)) rows += static_cast<char>(byte);
  }
  put_chunk(out, "IHDR", head);
  put_chunk(out, "IDAT", deflated(rows));
  put_chunk(out, "IEND", "");
  return out;
}

}  // namespace fovea::viewer
