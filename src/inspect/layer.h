#pragma once

#include "fovea/inspect.h"
#include "inspect/call.h"

namespace fovea::inspection {

struct AttentionArguments {
  const Tensor &q, &k, &v;
  const Mechanism& mechanism;
  const AttentionOptions& call;
};

// A context of the CPU with the threads and the seed of another.
Context host_context(const Context& context);

// All but the place of a layer's record.
LayerRecord measure(Context& host, const SequenceCall& call, const InspectOptions& options);
MapRectangle rectangle(Context& host, const SequenceCall& call, const MapRequest& request);

}  // namespace fovea::inspection
