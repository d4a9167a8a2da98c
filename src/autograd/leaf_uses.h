#pragma once

#include <span>
#include <unordered_map>

#include "fovea/autograd.h"

namespace fovea {

// How often nodes that are still to be played add to each leaf: tells when its gradient is complete.
class LeafUses {
 public:
  void add(std::span<const std::shared_ptr<Slot>> slots) {
    for (const auto& slot : slots)
      if (slot != nullptr && slot->leaf) ++left_[slot.get()];
  }
  // These have got what was theirs; f sees the leaves for which it was the last.
  template <class F>
  void pass(std::span<const std::shared_ptr<Slot>> slots, F&& f) {
    for (const auto& slot : slots)
      if (slot != nullptr && slot->leaf && --left_[slot.get()] == 0) f(slot);
  }

 private:
  std::unordered_map<const Slot*, std::int64_t> left_;
};

}  // namespace fovea
