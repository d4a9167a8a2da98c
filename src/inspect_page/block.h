#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "io/json.h"

namespace fovea::viewer {

enum class NumberType : std::uint8_t { u8, u16, u32, f16, f32 };

// Arrays of numbers one after the other, each at a multiple of four bytes, and a table of where they are:
// {"entropy": ["f32", 0, 512]}. Deflated and in base64 it is the content of one element of the page.
class Block {
 public:
  template <class T>
  void add(std::string_view name, std::span<const T> values, NumberType type) {
    std::string bytes;
    for (const T& value : values) append(bytes, static_cast<double>(value), type);
    add_bytes(name, bytes, type, values.size());
  }
  void add_bytes(std::string_view name, std::string_view bytes, NumberType type, std::size_t count);

  const Json& parts() const { return parts_; }
  const std::string& bytes() const { return bytes_; }
  std::string element(std::string_view id) const;  // the <script> that carries it

 private:
  static void append(std::string& out, double value, NumberType type);

  std::string bytes_;
  Json parts_ = Json::object();
};

std::string deflated(std::string_view bytes);  // a zlib stream

}  // namespace fovea::viewer
