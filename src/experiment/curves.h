#pragma once

#include <string_view>
#include <vector>

#include "io/file.h"

namespace fovea {

// The rows of one split of a run's metrics.csv.
struct Curve {
  std::vector<double> step, seconds, tokens, loss, accuracy, rate;  // accuracy in percent; rate: steps a second
};

Curve read_curve(const Path& run, std::string_view split);

// The mean of several lines: point by point where all have as many, else where all of them are, at the places of the
// first and between the points of the others.
struct Line {
  std::vector<double> x, y;
};
Line mean_line(const std::vector<Line>& lines);

// Where a line first reaches a level, from below or from above; NaN: never.
double reached(const Line& line, double level, bool from_below);

// Half of the 95% interval of the mean of measurements that follow each other, which may be alike for a while: by the
// means of a few stretches. Unknown of fewer than two stretches.
double drift_margin(const std::vector<double>& values);

}  // namespace fovea
