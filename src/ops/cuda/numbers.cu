#include "ops/numbers_kernels.h"

#include <algorithm>

#include "tensor/cuda/elements.cuh"

namespace fovea {
namespace {

using namespace device;  // NOLINT

// As many as go along with a launch.
struct Numbers {
  static constexpr std::size_t kMost = 64;
  Elements<double> of[kMost];
};

}  // namespace

template <>
void kernels::collect_numbers<Device::cuda>(const Context& context, const CollectNumbers& io) {
  for (std::size_t begin = 0; begin < io.scalars.size(); begin += Numbers::kMost) {
    const std::size_t count = std::min(Numbers::kMost, io.scalars.size() - begin);
    Numbers numbers;
    for (std::size_t i = 0; i < count; ++i) numbers.of[i] = elements<double>(io.scalars[begin + i]);
    double* const out = pointer<double>(io.out) + begin;
    each(context, static_cast<std::int64_t>(count), [=] __device__(std::int64_t i) {
      const Elements<double>& number = numbers.of[i];
      out[i] = number.defined() ? number[0] : 0.0;
    });
  }
}

}  // namespace fovea
