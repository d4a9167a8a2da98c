#include "report/grid.h"

#include <array>
#include <cmath>

#include "report/svg.h"

namespace fovea {
namespace {

constexpr double kCell = 4, kMargin = 1;
constexpr int kShades = 4;

// 0 for nothing at all; any weight shows, however small.
int shade_of(double value) {
  if (!(value > 0)) return 0;
  return 1 + std::min(kShades - 1, static_cast<int>(std::sqrt(value) * kShades));
}

}  // namespace

std::string grid_svg(const Grid& grid, std::string_view title) {
  const double width = 2 * kMargin + kCell * static_cast<double>(grid.columns);
  const double height = 2 * kMargin + kCell * static_cast<double>(grid.rows);
  SvgCanvas canvas({width, height}, title, SvgCanvas::Style::own);
  for (std::size_t row = 0; row < grid.rows; ++row) {
    const auto shade = [&](std::size_t column) { return shade_of(grid.values[row * grid.columns + column]); };
    for (std::size_t begin = 0, end = 0; begin < grid.columns; begin = end) {  // runs of one shade are one rectangle
      for (end = begin + 1; end < grid.columns && shade(end) == shade(begin);) ++end;
      if (shade(begin) == 0) continue;
      const double left = kMargin + kCell * static_cast<double>(begin),
                   top = kMargin + kCell * static_cast<double>(row);
      const double right = kMargin + kCell * static_cast<double>(end);
      const std::array<Point, 4> corners{Point{left, top}, Point{right, top}, Point{right, top + kCell},
                                         Point{left, top + kCell}};
      canvas.polygon(corners, Ink::blue, static_cast<double>(shade(begin)) / kShades);
    }
  }
  const std::array<Point, 5> frame{Point{0.5, 0.5}, Point{width - 0.5, 0.5}, Point{width - 0.5, height - 0.5},
                                   Point{0.5, height - 0.5}, Point{0.5, 0.5}};
  canvas.polyline(frame, {.ink = Ink::muted});
  return canvas.svg();
}

}  // namespace fovea
