#include "tensor/feed.h"

#include "core/recording.h"

namespace fovea {
namespace {

// In memory that the rest of a recording is never given: it is fed before all of it plays, and what comes earlier in it
// would write there.
Tensor room_beside(const Context& context, const Tensor& like) {
  const Allocator& all = *context.allocator();
  const Context beside({.threads = context.threads(),
                        .seed = context.seed(),
                        .memory = {.limit = all.limit() - all.total().now},
                        .pages = context.memory()});
  return Tensor::empty(beside, like.shape(), like.dtype());
}

}  // namespace

Tensor feed(const Context& context, const std::function<Tensor()>& make) {
  const Tensor now = make();
  Recording* const recording = Recording::current();
  if (recording == nullptr) {
    const bool here = now.device() == context.device() || now.device() != Device::cpu;
    return here ? now.contiguous(context) : now.clone(context);
  }
  const Tensor fixed = room_beside(context, now);
  recording->feed([fixed, make] {
    const Tensor next = make();
    if (next.shape() != fixed.shape()) return false;
    fixed.copy_from(next);
    return true;
  });
  return fixed;
}

}  // namespace fovea
