#pragma once

#include <memory>

#include "fovea/inspect.h"
#include "inspect/call.h"

namespace fovea::inspection {

// Where the rows of a call's map come from: the engines' own numbers where one of them makes the whole output,
// gradients elsewhere. Null: there is no map. `top`: keys of a row in its facts, where there are any; 0: no facts.
std::unique_ptr<MapSource> source_of(Context& host, const SequenceCall& call, std::int64_t top = 0);

}  // namespace fovea::inspection
