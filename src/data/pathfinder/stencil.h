#pragma once

#include "data/pathfinder/pathfinder.h"

// Shapes drawn twice as fine as the picture and reduced by Lanczos' filter, so that their edges are smooth.
namespace fovea::pathfinder {

inline constexpr std::int32_t kFine = 2;

// A square of (2 reach + 1)^2 pixels, of which each is kFine x kFine cells; cells are 0 or 1.
class FineSquare {
 public:
  explicit FineSquare(std::int32_t reach);

  // Through the middle, along (sin, cos) as (y, x).
  void line(double length, double radians);
  void disc(double radius);
  void widen(double radius);  // everything within that distance
  Field reduced() const;      // between 0 and 1

 private:
  std::int32_t side_;  // in cells
  Field cells_;
};

}  // namespace fovea::pathfinder
