#pragma once

#include <optional>
#include <string>
#include <vector>

#include "report/canvas.h"

namespace fovea {

// What pictures have in common, in pixels.
inline constexpr double kPad = 16, kTitleSize = 15, kTextSize = 12;

struct LegendEntry {
  std::string name;
  Stroke stroke;
  std::optional<Marker> marker = {};
};

// Samples with their names in a row from `start`, continued below where it is full.
class Legend {
 public:
  Legend(std::vector<LegendEntry> entries, Point start, double right);

  void draw(Canvas& canvas) const;
  double bottom() const { return bottom_; }

 private:
  std::vector<LegendEntry> entries_;
  std::vector<Point> places_;  // of the samples' left ends
  double bottom_;
};

inline constexpr double kMarkerRadius = 3.6;
void draw_marker(Canvas& canvas, Marker marker, Point at, Ink ink);

}  // namespace fovea
