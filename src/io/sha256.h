#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "io/file.h"

namespace fovea {

// SHA-256, as sha256sum prints it; some 200 MB/s.
class Sha256 {
 public:
  void add(std::string_view bytes);
  std::string text();  // 64 hexadecimal digits; nothing is added after it

 private:
  void block(const unsigned char* bytes);

  std::array<std::uint32_t, 8> state_ = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                         0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  std::string rest_;  // less than a block
  std::uint64_t size_ = 0;
};

std::string sha256(std::string_view bytes);
std::string sha256_of_file(const Path& path);

}  // namespace fovea
