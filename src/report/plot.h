#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "io/file.h"
#include "report/axis.h"
#include "report/canvas.h"
#include "report/svg.h"

namespace fovea {

struct Series {
  std::string name;                    // decides colour and marker
  std::vector<double> x = {}, y = {};  // NaN leaves a gap
  bool smooth = false;                 // a noisy curve: drawn faintly, with its running mean on top
  std::vector<double> margin = {};     // of each y, to both sides: an upright line
  std::vector<double> size = {};       // of each point: what its circle's area stands for
  std::vector<std::pair<std::vector<double>, std::vector<double>>> behind = {};  // lines that it is the mean of
  std::string note = {};  // behind its name, where names stand beside points
};

// A thin line of a given slope on log-log axes: how the best possible, or a quadratic cost, would grow.
struct Guide {
  double slope = 1;
  std::string label;
};

// A thin horizontal line: chance, a target, a published value.
struct Level {
  double y = 0;
  std::string label;
};

struct Plot {
  std::string title;
  Axis x, y;
  std::vector<Series> series;
  std::optional<Guide> guide = {};
  std::vector<Level> levels = {};
  bool labelled = false;  // names stand beside the points, and not above the frame
  Size size = {720, 420};
};

void draw(const Plot& plot, Canvas& canvas);

std::string plot_svg(const Plot& plot, SvgCanvas::Style style = SvgCanvas::Style::own);
std::string plot_png(const Plot& plot, Theme theme = Theme::light);
void write_png(const Plot& plot, const Path& path, Theme theme = Theme::light);

}  // namespace fovea
