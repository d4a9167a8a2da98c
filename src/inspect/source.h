#pragma once

#include <memory>

#include "fovea/inspect.h"
#include "inspect/call.h"

namespace fovea::inspection {

// Where the rows of a call's map come from: the engines' own numbers where one of them makes the whole output,
// gradients elsewhere. Null: there is no map.
std::unique_ptr<MapSource> source_of(Context& host, const SequenceCall& call);

}  // namespace fovea::inspection
