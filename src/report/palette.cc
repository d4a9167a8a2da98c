#include "report/palette.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

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

Ink series_ink(std::uint32_t number) {
  return static_cast<Ink>(kFirstSeriesInk + static_cast<int>(number % kSeriesInks));
}

const Known* find_known(std::string_view name) {
  const auto* found =
      std::find_if(std::begin(kKnown), std::end(kKnown), [&](const Known& k) { return k.name == name; });
  return found == std::end(kKnown) ? nullptr : found;
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
  if (const Known* known = find_known(name)) return known->style;
  const std::uint32_t h = hash(name);
  return {series_ink(h), static_cast<Marker>(h / kSeriesInks % kMarkers)};
}

std::vector<SeriesStyle> styles_of(std::span<const std::string_view> names) {
  std::vector<SeriesStyle> styles(names.size()), placed;
  const auto taken = [&](auto&& same) { return std::any_of(placed.begin(), placed.end(), same); };
  // Tries the wanted style, then other colours, then other markers.
  const auto free_style = [&](SeriesStyle wanted, int inks) {
    const bool fresh_ink = inks > 1 && static_cast<int>(placed.size()) < inks;
    for (int k = 0; k < inks * kMarkers; ++k) {
      const SeriesStyle style = {
          series_ink(static_cast<std::uint32_t>(static_cast<int>(wanted.ink) - kFirstSeriesInk + k % inks)),
          static_cast<Marker>((static_cast<int>(wanted.marker) + k / inks) % kMarkers)};
      if (!taken([&](const SeriesStyle& other) { return fresh_ink ? other.ink == style.ink : other == style; }))
        return style;
    }
    return wanted;
  };
  for (const bool known : {true, false})
    for (std::size_t i = 0; i < names.size(); ++i) {
      if ((find_known(names[i]) != nullptr) != known) continue;
      styles[i] = free_style(style_of(names[i]), known ? 1 : kSeriesInks);
      placed.push_back(styles[i]);
    }
  return styles;
}

std::string palette_css() {
  return classes(Theme::light) + "@media(prefers-color-scheme:dark){" + classes(Theme::dark) + "}";
}

}  // namespace fovea
