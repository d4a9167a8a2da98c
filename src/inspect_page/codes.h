#pragma once

#include <cstdint>
#include <span>
#include <string>

namespace fovea::viewer {

// How weights become bytes. Code 0 is a magnitude below 2^low; codes 1 .. levels are 2^(low + step (code - 1)); of
// signed maps the codes after these are the same below zero; 255 is not a number. viewer/data.js reads it.
struct Coding {
  double low = 0.0, step = 1.0;
  bool is_signed = false;

  int levels() const { return is_signed ? 127 : 254; }
  std::uint8_t code(float value) const;
  double value(std::uint8_t code) const;
};

inline constexpr std::uint8_t kBadCode = 255;

// The finest coding of values in [-1, 1] whose codes deflate to about `bytes`: at least 1/16 of an octave, at most
// three. Magnitudes below `least` become 0; where even that is too much, those below up to 32 times as much.
Coding coding_for(std::span<const float> values, double least, bool is_signed, double bytes);

std::string coded(std::span<const float> values, const Coding& coding);

}  // namespace fovea::viewer
