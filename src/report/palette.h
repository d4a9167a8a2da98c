#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

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

// How a series is drawn. A name has the same style in every plot.
struct SeriesStyle {
  Ink ink;
  Marker marker;

  bool operator==(const SeriesStyle&) const = default;
};
SeriesStyle style_of(std::string_view name);

// CSS classes fNN (fill) and sNN (stroke) for all inks, light or dark by the reader's preference.
std::string palette_css();

}  // namespace fovea
