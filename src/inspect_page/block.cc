#include "inspect_page/block.h"

#include <fmt/format.h>
#include <zlib.h>

#include "fovea/error.h"
#include "fovea/half.h"
#include "io/html_text.h"

namespace fovea::viewer {
namespace {

constexpr std::string_view kTypeNames[] = {"u8", "u16", "u32", "f16", "f32"};

template <class T>
void append_bytes(std::string& out, T value) {
  for (std::size_t k = 0; k < sizeof(T); ++k) out += static_cast<char>(value >> (8 * k) & 0xff);
}

}  // namespace

void Block::append(std::string& out, double value, NumberType type) {
  switch (type) {
    case NumberType::u8: append_bytes(out, static_cast<std::uint8_t>(value)); break;
    case NumberType::u16: append_bytes(out, static_cast<std::uint16_t>(static_cast<std::int64_t>(value))); break;
    case NumberType::u32: append_bytes(out, static_cast<std::uint32_t>(static_cast<std::int64_t>(value))); break;
    case NumberType::f16: append_bytes(out, f16(static_cast<float>(value)).bits); break;
    case NumberType::f32: append_bytes(out, std::bit_cast<std::uint32_t>(static_cast<float>(value))); break;
  }
}

void Block::add_bytes(std::string_view name, std::string_view bytes, NumberType type, std::size_t count) {
  parts_[std::string(name)] = {kTypeNames[static_cast<std::size_t>(type)], bytes_.size(), count};
  bytes_ += bytes;
  bytes_.resize((bytes_.size() + 3) / 4 * 4, '\0');
}

std::string Block::element(std::string_view id) const {
  return fmt::format("<script type=\"text/plain\" id=\"{}\">{}</script>\n", id, base64(deflated(bytes_)));
}

std::string deflated(std::string_view bytes) {
  uLongf size = compressBound(static_cast<uLong>(bytes.size()));
  std::string out(size, '\0');
  constexpr int kLevel = 6;
  if (compress2(reinterpret_cast<Bytef*>(out.data()), &size, reinterpret_cast<const Bytef*>(bytes.data()),
                static_cast<uLong>(bytes.size()), kLevel) != Z_OK)
    fail(ErrorCode::internal, "zlib refused to deflate", "page of inspect");
  out.resize(size);
  return out;
}

}  // namespace fovea::viewer
