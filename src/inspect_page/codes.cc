#include "inspect_page/codes.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>

namespace fovea::viewer {
namespace {

// Octaves that the least magnitude may rise by where the coarsest steps are too many bytes.
constexpr double kMostRise = 5.0;

// Within 0.0001 of log2(|value|), many times faster: millions of weights go through it.
float fast_log2(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value) & 0x7fffffffu;
  const float exponent = static_cast<float>(static_cast<std::int32_t>(bits >> 23) - 127);
  const float m = std::bit_cast<float>((bits & 0x7fffffu) | 0x3f800000u);  // [1, 2)
  const float t = (m - 1.0f) / (m + 1.0f), t2 = t * t;                     // log(m) = 2 artanh(t)
  return exponent + 2.885390f * t * (1.0f + t2 * (0.3333333f + t2 * (0.2f + t2 * 0.142857f)));
}

// Bits for each code when each takes as many as its rarity asks for, and at least so many: a code that is a byte of its
// own, and no part of a run, costs deflate one.
double estimated_bits(std::span<const float> values, const Coding& coding, double at_least) {
  std::array<std::int64_t, 256> counts{};
  const std::size_t stride = 1 + values.size() / 65536;
  std::int64_t total = 0;
  for (std::size_t i = 0; i < values.size(); i += stride, ++total) ++counts[coding.code(values[i])];
  double bits = 0.0;
  for (const std::int64_t count : counts)
    if (count > 0)
      bits += static_cast<double>(count) *
              std::max(at_least, -std::log2(static_cast<double>(count) / static_cast<double>(total)));
  return total > 0 ? bits / static_cast<double>(total) : 0.0;
}

}  // namespace

std::uint8_t Coding::code(float value) const {
  if (!std::isfinite(value)) return kBadCode;
  if (value == 0.0f) return 0;
  const double place = std::round((static_cast<double>(fast_log2(value)) - low) / step);
  if (place < 0.0) return 0;
  const int level = 1 + static_cast<int>(std::min(place, static_cast<double>(levels() - 1)));
  return static_cast<std::uint8_t>(level + (is_signed && value < 0.0f ? levels() : 0));
}

double Coding::value(std::uint8_t code) const {
  if (code == 0) return 0.0;
  if (code == kBadCode) return std::nan("");
  const bool negative = code > levels();
  const double magnitude = std::exp2(low + step * (code - 1 - (negative ? levels() : 0)));
  return negative ? -magnitude : magnitude;
}

Coding coding_for(std::span<const float> values, double least, bool is_signed, double bytes) {
  const double low = std::log2(least);
  Coding coding{.low = low, .is_signed = is_signed};
  // Deflate comes within a fifth of the estimate.
  const auto fits = [&](double at_least) {
    return 1.2 * estimated_bits(values, coding, at_least) * static_cast<double>(values.size()) / 8.0 <= bytes;
  };
  for (const double step : {1.0 / 16, 1.0 / 8, 1.0 / 4, 1.0 / 2, 1.0, 2.0, 3.0}) {
    coding.step = std::max(step, -low / (coding.levels() - 1));
    if (fits(0.0)) return coding;
  }
  // What is left is without order.
  while (coding.low < low + kMostRise && !fits(1.0)) coding.low += 0.5;
  return coding;
}

std::string coded(std::span<const float> values, const Coding& coding) {
  std::string out(values.size(), '\0');
  std::transform(values.begin(), values.end(), out.begin(),
                 [&](float value) { return static_cast<char>(coding.code(value)); });
  return out;
}

}  // namespace fovea::viewer
