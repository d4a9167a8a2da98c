#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace fovea::viewer {

// The page's own sources, the files of the folder `viewer`, which the build puts into the library.
std::string script();
std::string style();

// The page with each {{name}} replaced.
std::string fill(const std::vector<std::pair<std::string_view, std::string>>& values);

}  // namespace fovea::viewer
