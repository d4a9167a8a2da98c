#include "report/bars.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "report/legend.h"
#include "report/numbers.h"

namespace fovea {
namespace {

constexpr double kBarRow = 46, kBar = 20, kBarAxis = 44;

// Parts are told apart by colour alone: each keeps its own in all bars, in this order.
constexpr std::array kInksOfParts{Ink::blue, Ink::amber,  Ink::green,     Ink::pink,
                                  Ink::cyan, Ink::violet, Ink::vermilion, Ink::grey};

double sum_of(const Bars::Bar& bar) {
  double sum = 0.0;
  for (const Bars::Part& part : bar.parts) sum += part.value;
  return sum;
}

// Parts that are worth a colour, the largest first.
std::vector<std::string> parts_of(const Bars& bars) {
  constexpr double kLeast = 0.005;
  std::vector<std::pair<std::string, double>> largest;
  for (const Bars::Bar& bar : bars.bars)
    for (const Bars::Part& part : bar.parts) {
      auto at =
          std::find_if(largest.begin(), largest.end(), [&](const auto& known) { return known.first == part.name; });
      if (at == largest.end()) at = largest.insert(at, {part.name, 0.0});
      at->second = std::max(at->second, part.value / std::max(sum_of(bar), 1e-300));
    }
  std::stable_sort(largest.begin(), largest.end(), [](const auto& a, const auto& b) { return a.second > b.second; });
  std::vector<std::string> names;
  for (const auto& [name, share] : largest)
    if (share >= kLeast) names.push_back(name);
  return names;
}

Ink ink_of(std::size_t part) { return kInksOfParts[part % kInksOfParts.size()]; }

Legend legend_of(const Bars& bars) {
  std::vector<LegendEntry> entries;
  const std::vector<std::string> parts = parts_of(bars);
  for (std::size_t i = 0; i < parts.size(); ++i) entries.push_back({parts[i], {.ink = ink_of(i), .width = 10}, {}});
  return {std::move(entries), {kPad, kPad + kTitleSize + 8}, bars.width - kPad};
}

void rectangle(Canvas& canvas, Point corner, Size size, Ink ink) {
  const std::array<Point, 4> corners{corner, Point{corner.x + size.width, corner.y},
                                     Point{corner.x + size.width, corner.y + size.height},
                                     Point{corner.x, corner.y + size.height}};
  canvas.polygon(corners, ink);
}

}  // namespace

Size Bars::size() const {
  return {width, legend_of(*this).bottom() + 8 + kBarRow * static_cast<double>(bars.size()) + kBarAxis};
}

void draw(const Bars& bars, Canvas& canvas) {
  canvas.text({kPad, kPad + kTitleSize * 0.8}, bars.title, {.size = kTitleSize, .bold = true});
  const Legend legend = legend_of(bars);
  legend.draw(canvas);
  std::vector<double> sums;
  for (const Bars::Bar& bar : bars.bars) sums.push_back(sum_of(bar));
  Axis axis = bars.axis;
  axis.include.push_back(0.0);
  const AxisMap map(axis, sums, AxisMap::Ends::data);
  const double left = kPad, right = bars.width - kPad - 56, top = legend.bottom() + 8;
  const double bottom = top + kBarRow * static_cast<double>(bars.bars.size());
  const auto place = [&](double value) { return left + map.position(value) * (right - left); };
  for (const Tick& tick : map.ticks()) {
    const std::array<Point, 2> ends{Point{place(tick.value), top}, Point{place(tick.value), bottom}};
    canvas.polyline(ends, {.ink = Ink::grid});
    canvas.text({place(tick.value), bottom + 16}, tick.label,
                {.ink = Ink::muted, .size = kTextSize, .anchor = Anchor::middle});
  }
  canvas.text({(left + right) / 2, bottom + 34}, axis.title(),
              {.ink = Ink::muted, .size = kTextSize, .anchor = Anchor::middle});
  const std::vector<std::string> parts = parts_of(bars);
  for (std::size_t b = 0; b < bars.bars.size(); ++b) {
    const Bars::Bar& bar = bars.bars[b];
    const double y = top + kBarRow * static_cast<double>(b);
    canvas.text({left, y + 14}, bar.name, {.size = kTextSize});
    double before = 0.0;
    for (std::size_t i = 0; i < parts.size(); ++i) {
      const auto part =
          std::find_if(bar.parts.begin(), bar.parts.end(), [&](const auto& p) { return p.name == parts[i]; });
      if (part == bar.parts.end() || !(part->value > 0.0)) continue;
      const double from = place(before), to = place(before + part->value);
      rectangle(canvas, {from, y + 20}, {to - from, kBar}, ink_of(i));
      canvas.tip({(from + to) / 2, y + 20 + kBar / 2}, std::min(kBar / 2, (to - from) / 2 + 2),
                 fmt::format("{}\n{}: {} {} ({:.0f}%)", bar.name, part->name, number_text(part->value), axis.unit,
                             100.0 * part->value / sums[b]));
      before += part->value;
    }
    canvas.text({place(before) + 6, y + 20 + kBar / 2 + kTextSize * 0.36},
                fmt::format("{} {}", number_text(sums[b]), axis.unit), {.ink = Ink::muted, .size = kTextSize});
  }
}

}  // namespace fovea
