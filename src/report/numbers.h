#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace fovea {

// What a number means: decides its unit and how it is written.
enum class Quantity : std::uint8_t { number, percent, seconds, bytes, ratio, count, text };

// Values are multiplied by `factor` and shown with `unit`.
struct Unit {
  double factor = 1;
  std::string_view text;
};

// The unit in which the largest of some values lies between 1 and 999: 0.0021 s is shown in ms. A percent is stored as
// a fraction.
Unit unit_for(Quantity quantity, double largest);

// Three significant digits, whole numbers in full: 0.0312, 1.42, 36.5, 12345. "-" for NaN.
std::string number_text(double value);
// As many decimals as number_text() gives `like`: so that 36.1 ± 0.4 lines up.
std::string number_text_like(double value, double like);

std::string quantity_text(Quantity quantity, double value);  // "36.5%", "2.1 ms", "182 MB", "1.42x", "201k"
std::string clock_text(double seconds);                      // "0:31", "1:02:03"

}  // namespace fovea
