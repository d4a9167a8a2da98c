#pragma once

#include <nlohmann/json_fwd.hpp>

namespace fovea {

// Enough to pass one on; who looks inside includes io/json.h, which costs 2 s of compilation.
using Json = nlohmann::ordered_json;  // keeps keys in the order they were written

}  // namespace fovea
