#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace fovea {

// A matrix of shares in [0, 1], row by row: who attends to whom. Drawn as squares, darker for more.
struct Grid {
  std::size_t rows = 0, columns = 0;
  std::vector<double> values;
};

std::string grid_svg(const Grid& grid, std::string_view title);

}  // namespace fovea
