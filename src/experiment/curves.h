#pragma once

#include <string_view>
#include <vector>

#include "io/file.h"

namespace fovea {

// The rows of one split of a run's metrics.csv.
struct Curve {
  std::vector<double> step, seconds, loss, accuracy;  // accuracy in percent
};

Curve read_curve(const Path& run, std::string_view split);

}  // namespace fovea
