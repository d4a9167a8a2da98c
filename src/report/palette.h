#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace fovea {

enum class Theme : std::uint8_t { light, dark };

// Everything drawn has one of these colours; what they look like depends on the reader's theme.
enum class Ink : std::uint8_t { paper, text, muted, grid, blue, vermilion, green, pink, amber, cyan, violet, grey };
inline constexpr int kInks = 12;

enum class Marker : std::uint8_t { circle, square, triangle, diamond, plus, inverted };
inline constexpr int kMarkers = 6;

struct Rgb {
  std::uint8_t red, green, blue;
};
Rgb colour(Ink ink, Theme theme);

// How a series is drawn.
struct SeriesStyle {
  Ink ink;
  Marker marker;

  bool operator==(const SeriesStyle&) const = default;
};
// A name has the same style everywhere.
SeriesStyle style_of(std::string_view name);
// The series of one plot. A name without a style of its own gives way when its colour is taken: no two look the same.
std::vector<SeriesStyle> styles_of(std::span<const std::string_view> names);

// CSS classes fNN (fill) and sNN (stroke) for all inks, light or dark by the reader's preference.
std::string palette_css();

}  // namespace fovea
