#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace fovea {

// Names separated by commas. A piece such as "weights=rela" belongs to the mechanism before it:
// "softmax,diag:block=32,weights=rela,norm" are three.
std::vector<std::string_view> split_names(std::string_view text);

}  // namespace fovea
