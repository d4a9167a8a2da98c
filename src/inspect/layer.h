#pragma once

#include "fovea/inspect.h"
#include "inspect/call.h"

namespace fovea::inspection {

struct AttentionArguments {
  Tensor q, k, v;
  Mechanism mechanism;
  AttentionOptions call;
};
// One sequence of such a call, which is checked as any other.
SequenceCall single_sequence(Context& context, const AttentionArguments& arguments, std::int64_t sequence = 0);

// A context of the CPU with the threads and the seed of another.
Context host_context(const Context& context);
// Where maps of its calls are measured: on its card, else on the host.
Context near_context(const Context& context);

// All but the place of a layer's record. The call is on the device of `near`; what its kernels do not measure is copied
// to the host.
LayerRecord measure(Context& near, const SequenceCall& call, const InspectOptions& options);
// Of a map (n, n) that is there as a whole: one head.
LayerRecord measure_whole(Context& host, std::vector<float> map, bool causal, const InspectOptions& options);
MapRectangle rectangle(Context& near, const SequenceCall& call, const MapRequest& request);

}  // namespace fovea::inspection
