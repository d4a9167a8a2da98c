#include "io/sha256.h"

#include <bit>
#include <cmath>

namespace fovea {
namespace {

constexpr std::size_t kBlock = 64;

// The first 32 bits of the fractional parts of the cube roots of the first 64 primes.
std::array<std::uint32_t, 64> round_constants() {
  std::array<std::uint32_t, 64> out{};
  std::size_t count = 0;
  for (std::uint32_t n = 2; count < out.size(); ++n) {
    bool prime = true;
    for (std::uint32_t d = 2; d * d <= n; ++d) prime = prime && n % d != 0;
    if (!prime) continue;
    const long double root = std::cbrt(static_cast<long double>(n));
    out[count++] = static_cast<std::uint32_t>(std::floor((root - std::floor(root)) * 0x1p32L));
  }
  return out;
}

std::uint32_t word_at(const unsigned char* bytes) {
  return static_cast<std::uint32_t>(bytes[0]) << 24 | static_cast<std::uint32_t>(bytes[1]) << 16 |
         static_cast<std::uint32_t>(bytes[2]) << 8 | bytes[3];
}

}  // namespace

void Sha256::block(const unsigned char* bytes) {
  static const std::array<std::uint32_t, 64> constants = round_constants();
  std::array<std::uint32_t, 64> w;
  for (std::size_t i = 0; i < 16; ++i) w[i] = word_at(bytes + 4 * i);
  for (std::size_t i = 16; i < w.size(); ++i) {
    const std::uint32_t a = std::rotr(w[i - 15], 7) ^ std::rotr(w[i - 15], 18) ^ (w[i - 15] >> 3);
    const std::uint32_t b = std::rotr(w[i - 2], 17) ^ std::rotr(w[i - 2], 19) ^ (w[i - 2] >> 10);
    w[i] = w[i - 16] + a + w[i - 7] + b;
  }
  std::array<std::uint32_t, 8> s = state_;
  for (std::size_t i = 0; i < w.size(); ++i) {
    const std::uint32_t choice = (s[4] & s[5]) ^ (~s[4] & s[6]);
    const std::uint32_t majority = (s[0] & s[1]) ^ (s[0] & s[2]) ^ (s[1] & s[2]);
    const std::uint32_t t1 =
        s[7] + (std::rotr(s[4], 6) ^ std::rotr(s[4], 11) ^ std::rotr(s[4], 25)) + choice + constants[i] + w[i];
    const std::uint32_t t2 = (std::rotr(s[0], 2) ^ std::rotr(s[0], 13) ^ std::rotr(s[0], 22)) + majority;
    s = {t1 + t2, s[0], s[1], s[2], s[3] + t1, s[4], s[5], s[6]};
  }
  for (std::size_t i = 0; i < s.size(); ++i) state_[i] += s[i];
}

void Sha256::add(std::string_view bytes) {
  size_ += bytes.size();
  rest_ += bytes;
  std::size_t done = 0;
  for (; rest_.size() - done >= kBlock; done += kBlock) block(reinterpret_cast<const unsigned char*>(&rest_[done]));
  rest_.erase(0, done);
}

std::string Sha256::text() {
  const std::uint64_t bits = 8 * size_;
  std::string end(1, '\x80');
  end.resize(1 + (2 * kBlock - 9 - rest_.size()) % kBlock);
  for (int shift = 56; shift >= 0; shift -= 8) end += static_cast<char>(bits >> shift);
  add(end);
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string out;
  for (const std::uint32_t word : state_)
    for (int shift = 28; shift >= 0; shift -= 4) out += kDigits[word >> shift & 15];
  return out;
}

std::string sha256(std::string_view bytes) {
  Sha256 hash;
  hash.add(bytes);
  return hash.text();
}

std::string sha256_of_file(const Path& path) {
  const MappedFile file(path);
  return sha256({reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size()});
}

}  // namespace fovea
