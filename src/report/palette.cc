#include "report/palette.h"

#include <fmt/format.h>

namespace fovea {
namespace {

struct Pair {
  Rgb light, dark;
};

// After Okabe and Ito: told apart with any of the common colour deficiencies, darkened on white and lightened on black
// until thin lines keep a contrast of 3 to 1.
constexpr std::array<Pair, kInks> kColours = {{
    {{255, 255, 255}, {22, 24, 29}},    // paper
    {{28, 30, 34}, {232, 234, 238}},    // text
    {{98, 104, 114}, {154, 161, 172}},  // muted
    {{226, 229, 234}, {48, 53, 61}},    // grid
    {{0, 104, 178}, {91, 176, 240}},    // blue
    {{208, 84, 0}, {255, 140, 76}},     // vermilion
    {{0, 134, 102}, {52, 205, 160}},    // green
    {{184, 76, 144}, {238, 143, 198}},  // pink
    {{168, 120, 0}, {240, 192, 64}},    // amber
    {{24, 144, 184}, {118, 216, 250}},  // cyan
    {{104, 80, 168}, {182, 158, 255}},  // violet
    {{92, 96, 104}, {184, 188, 196}},   // grey
}};

constexpr int kFirstSeriesInk = static_cast<int>(Ink::blue);
constexpr int kSeriesInks = kInks - kFirstSeriesInk;

struct Known {
  std::string_view name;
  SeriesStyle style;
};

// The ones compared most often get colours that are far apart.
constexpr Known kKnown[] = {
    {"softmax", {Ink::blue, Marker::circle}},
    {"transformer", {Ink::blue, Marker::circle}},
    {"transnormer-t2", {Ink::vermilion, Marker::square}},
    {"transnormer-t1", {Ink::green, Marker::triangle}},
    {"norm", {Ink::violet, Marker::diamond}},
    {"linear", {Ink::pink, Marker::inverted}},
    {"diag", {Ink::cyan, Marker::plus}},
    {"rela", {Ink::amber, Marker::triangle}},
};

std::uint32_t hash(std::string_view name) {
  std::uint32_t h = 2166136261u;
  for (const char c : name) h = (h ^ static_cast<std::uint8_t>(c)) * 16777619u;
  return h ^ h >> 15;
}

std::string classes(Theme theme) {
  std::string css;
  for (int i = 0; i < kInks; ++i) {
    const Rgb c = colour(static_cast<Ink>(i), theme);
    const std::string hex = fmt::format("#{:02x}{:02x}{:02x}", c.red, c.green, c.blue);
    css += fmt::format(".f{0}{{fill:{1}}}.s{0}{{stroke:{1}}}", i, hex);
  }
  return css;
}

}  // namespace

Rgb colour(Ink ink, Theme theme) {
  const Pair& pair = kColours[static_cast<std::size_t>(ink)];
  return theme == Theme::light ? pair.light : pair.dark;
}

SeriesStyle style_of(std::string_view name) {
  for (const Known& known : kKnown)
    if (known.name == name) return known.style;
  const std::uint32_t h = hash(name);
  return {static_cast<Ink>(kFirstSeriesInk + static_cast<int>(h % kSeriesInks)),
          static_cast<Marker>(h / kSeriesInks % kMarkers)};
}

std::string palette_css() {
  return classes(Theme::light) + "@media(prefers-color-scheme:dark){" + classes(Theme::dark) + "}";
}

}  // namespace fovea
