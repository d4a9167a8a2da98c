#include "core/stream_shift.h"
#include "core/wide.h"
#include "ops/experts_kernels.h"
#include "policy/philox.h"
#include "tensor/cuda/loops.cuh"

namespace fovea {
namespace {

using namespace device;  // NOLINT

struct EightWords {
  Philox half[2];
};

template <class R>
struct AddNoise {
  std::uint64_t seed, stream;
  const std::uint64_t* shift;
  R amount;

  __device__ EightWords of_eight(std::int64_t i) const {
    const auto first = static_cast<std::uint64_t>(i) / 4;
    const std::uint64_t high = shifted(stream, shift);
    return {{philox(seed, first, high), philox(seed, first + 1, high)}};
  }
  __device__ R operator()(const EightWords& words, int in_eight, R x) const {
    const R u = static_cast<R>(uniform01(words.half[in_eight / 4].word[in_eight % 4]));
    return x * (1 + amount * (2 * u - 1));
  }
};

}  // namespace

template <>
void kernels::jitter<Device::cuda>(const Context& context, const JitterTensors& io) {
  visit_wide(io.x.dtype(), [&]<class R>() {
    map<R>(context, AddNoise<R>{io.noise.seed, io.noise.stream, io.noise.shift, static_cast<R>(io.noise.amount)}, io.y,
           io.x);
  });
}

}  // namespace fovea
