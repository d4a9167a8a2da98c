#pragma once

#include "inspect/sink.h"
#include "mechanisms/kind.h"

namespace fovea::inspection {

// One sequence of an attention call, alone: batch 1, no padding, in f32 or f64, without dropout.
struct SequenceCall {
  Tensor q, k, v;
  Mechanism mechanism;
  AttentionOptions options;

  MapShape shape() const { return {q.dim(2), q.dim(1), k.dim(1)}; }
};

// Whether the values of a call may have `width` channels instead: no weight has a size of theirs.
bool takes_width(const Mechanism& mechanism, const Tensor& q, const Tensor& v, std::int64_t width);

// Sequence s of a call, on the device of a context: the call's own, or the host. What does not outlive the call
// (`lasts` is false) takes its tensors as they are, where they are there already and wide enough.
SequenceCall sequence_of(const Context& context, const Call& call, std::int64_t s, bool lasts = true);
// The same call on the host.
SequenceCall on_host(const Context& host, const SequenceCall& call);

}  // namespace fovea::inspection
