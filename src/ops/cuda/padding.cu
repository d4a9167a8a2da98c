#include "ops/padding_kernels.h"

#include "core/wide.h"
#include "ops/cuda/split.cuh"
#include "tensor/cuda/loops.cuh"

namespace fovea {
namespace {

using namespace device;  // NOLINT

template <class R>
struct FillRows {
  const Span* spans;
  std::int64_t width;
  R value;

  __device__ R operator()(std::int64_t i, R x) const {
    const Span span = spans[split(i, width).whole];
    return span.begin < span.end ? x : value;
  }
};

}  // namespace

template <>
void kernels::fill_padding<Device::cuda>(const Context& context, const FillPadding& io) {
  if (io.y.numel() == 0) return;
  const auto spans = upload(context, io.spans);
  const std::int64_t width = io.x.numel() / spans.size();
  visit_wide(io.x.dtype(), [&]<class R>() {
    map<R>(context, FillRows<R>{spans.data(), width, static_cast<R>(io.value)}, io.y, io.x);
  });
}

}  // namespace fovea
