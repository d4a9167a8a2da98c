#pragma once

#include <cstdint>
#include <span>

namespace fovea {

// FNV-1a, one byte at a time.
class Hash {
 public:
  void add(std::uint8_t byte) { value_ = (value_ ^ byte) * 0x100000001b3u; }
  template <class T>
  void add_all(std::span<const T> values) {
    const auto* bytes = reinterpret_cast<const std::uint8_t*>(values.data());
    for (std::size_t i = 0; i < values.size_bytes(); ++i) add(bytes[i]);
  }
  std::uint64_t value() const { return value_; }

 private:
  std::uint64_t value_ = 0xcbf29ce484222325u;
};

}  // namespace fovea
