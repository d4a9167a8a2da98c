#include "report/legend.h"

#include <array>

namespace fovea {
namespace {

constexpr double kEntryRow = 20, kSample = 26, kEntryGap = 18;

}  // namespace

Legend::Legend(std::vector<LegendEntry> entries, Point start, double right) : entries_(std::move(entries)) {
  Point at{start.x, start.y + kEntryRow / 2};
  for (const LegendEntry& entry : entries_) {
    const double width = kSample + 6 + drawn_width(entry.name, kTextSize);
    if (at.x > start.x && at.x + width > right) at = {start.x, at.y + kEntryRow};
    places_.push_back(at);
    at.x += width + kEntryGap;
  }
  bottom_ = entries_.empty() ? start.y : at.y + kEntryRow / 2;
}

void Legend::draw(Canvas& canvas) const {
  for (std::size_t i = 0; i < entries_.size(); ++i) {
    const LegendEntry& entry = entries_[i];
    const Point at = places_[i];
    const std::array<Point, 2> sample{at, Point{at.x + kSample, at.y}};
    canvas.polyline(sample, entry.stroke);
    if (entry.marker) draw_marker(canvas, *entry.marker, {at.x + kSample / 2, at.y}, entry.stroke.ink);
    canvas.text({at.x + kSample + 6, at.y + kTextSize * 0.36}, entry.name, {.size = kTextSize});
  }
}

void draw_marker(Canvas& canvas, Marker marker, Point at, Ink ink) {
  constexpr double r = kMarkerRadius;
  const auto shape = [&](std::vector<Point> corners) {
    for (Point& corner : corners) corner = {at.x + corner.x * r, at.y + corner.y * r};
    canvas.polygon(corners, ink);
  };
  switch (marker) {
    case Marker::circle: return canvas.circle(at, r, ink);
    case Marker::square: return shape({{-0.9, -0.9}, {0.9, -0.9}, {0.9, 0.9}, {-0.9, 0.9}});
    case Marker::triangle: return shape({{0, -1.25}, {1.1, 0.85}, {-1.1, 0.85}});
    case Marker::inverted: return shape({{0, 1.25}, {1.1, -0.85}, {-1.1, -0.85}});
    case Marker::diamond: return shape({{0, -1.3}, {1.3, 0}, {0, 1.3}, {-1.3, 0}});
    case Marker::plus:
      return shape({{-0.4, -1.2},
                    {0.4, -1.2},
                    {0.4, -0.4},
                    {1.2, -0.4},
                    {1.2, 0.4},
                    {0.4, 0.4},
                    {0.4, 1.2},
                    {-0.4, 1.2},
                    {-0.4, 0.4},
                    {-1.2, 0.4},
                    {-1.2, -0.4},
                    {-0.4, -0.4}});
  }
}

}  // namespace fovea
