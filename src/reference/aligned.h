#pragma once

#include "reference/attention.h"

namespace fovea::reference {

// A problem whose first query stands on the first key: a query behind the last key stands on it, by itself.
Result aligned(const Problem& given, const std::function<Result(const Problem&)>& define);

}  // namespace fovea::reference
