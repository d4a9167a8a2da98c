#pragma once

#include <vector>

#include "fovea/inspect.h"
#include "inspect/call.h"

namespace fovea::inspection {

// Attention rollout: the heads of a layer are averaged, what a token keeps of itself is added, rows sum to 1, and
// layers are multiplied from the first up. Layers of other lengths, or without a map, end it.
class Rollout {
 public:
  explicit Rollout(const InspectOptions& options) : most_(options.rollout_tokens) {}

  void add(Context& host, const SequenceCall& call);
  const std::vector<float>& so_far() const { return product_; }  // (n, n); empty: there is none
  bool causal() const { return causal_; }

 private:
  std::int64_t most_, n_ = -1;
  bool ended_ = false, causal_ = true;
  std::vector<float> product_;
};

}  // namespace fovea::inspection
