#include "report/numbers.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <span>

namespace fovea {
namespace {

struct Step {
  double from;  // the smallest value shown in this unit
  Unit unit;
};

// 999.5 and more would round to four digits.
constexpr Step kSeconds[] = {
    {999.5, {1.0 / 60, "min"}}, {0.9995, {1, "s"}}, {0.9995e-3, {1e3, "ms"}}, {0, {1e6, "µs"}}};
constexpr Step kBytes[] = {{0.9995e12, {1e-12, "TB"}}, {0.9995e9, {1e-9, "GB"}}, {0, {1e-6, "MB"}}};
constexpr Step kCounts[] = {{0.9995e9, {1e-9, "G"}}, {0.9995e6, {1e-6, "M"}}, {0.9995e4, {1e-3, "k"}}, {0, {1, ""}}};

Unit choose(std::span<const Step> steps, double largest) {
  for (const Step& step : steps)
    if (largest >= step.from) return step.unit;
  return steps.back().unit;
}

int decimals(double value) {
  const double size = std::abs(value);
  if (!std::isfinite(value) || size == 0 || size >= 99.95) return 0;
  return std::max(0, 2 - static_cast<int>(std::floor(std::log10(size * 1.0005))));
}

}  // namespace

Unit unit_for(Quantity quantity, double largest) {
  const double size = std::isfinite(largest) ? std::abs(largest) : 0;
  switch (quantity) {
    case Quantity::percent: return {100, "%"};
    case Quantity::seconds: return choose(kSeconds, size);
    case Quantity::bytes: return choose(kBytes, size);
    case Quantity::count: return choose(kCounts, size);
    default: return {};
  }
}

std::string number_text(double value) {
  const double size = std::abs(value);
  const bool tiny = size > 0 && size < 0.9995e-3, huge = size >= 1e9 && std::isfinite(value);
  if (tiny || huge) return fmt::format("{:.2e}", value);
  return number_text_like(value, value);
}

std::string number_text_like(double value, double like) {
  if (std::isnan(value)) return "-";
  return fmt::format("{:.{}f}", value, decimals(like));
}

std::string quantity_text(Quantity quantity, double value) {
  const Unit unit = unit_for(quantity, value);
  const std::string number = number_text(value * unit.factor);
  if (std::isnan(value)) return number;
  switch (quantity) {
    case Quantity::ratio: return number + "x";
    case Quantity::percent:
    case Quantity::count: return number + std::string(unit.text);
    default: return unit.text.empty() ? number : fmt::format("{} {}", number, unit.text);
  }
}

std::string clock_text(double seconds) {
  if (!std::isfinite(seconds) || seconds > 360000) return "-:--";  // beyond 100 hours it says nothing
  const auto whole = static_cast<std::int64_t>(std::llround(std::max(seconds, 0.0)));
  const std::int64_t hours = whole / 3600, minutes = whole / 60 % 60, rest = whole % 60;
  if (hours > 0) return fmt::format("{}:{:02}:{:02}", hours, minutes, rest);
  return fmt::format("{}:{:02}", minutes, rest);
}

}  // namespace fovea
