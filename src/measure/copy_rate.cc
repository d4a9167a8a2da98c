#include "measure/copy_rate.h"

#include <cstring>

#include "core/parallel.h"
#include "fovea/tensor.h"
#include "measure/stopwatch.h"

namespace fovea {
namespace {

constexpr std::int64_t kBytes = std::int64_t{64} << 20;
constexpr std::int64_t kPiece = std::int64_t{256} << 10;  // of a thread at a time

void copy(const Context& context, const std::uint8_t* from, std::uint8_t* to) {
  parallel_ranges(context, kBytes, kPiece, [&](std::int64_t begin, std::int64_t end) {
    std::memcpy(to + begin, from + begin, static_cast<std::size_t>(end - begin));
  });
}

}  // namespace

double copy_rate(const Context& context) {
  const auto block = [&] { return Tensor::zeros(context, {kBytes}, DType::u8); };
  const Tensor from = block(), to = block();
  copy(context, from.data<std::uint8_t>(), to.data<std::uint8_t>());
  const Stopwatch watch;
  copy(context, from.data<std::uint8_t>(), to.data<std::uint8_t>());
  return static_cast<double>(kBytes) / watch.seconds();
}

}  // namespace fovea
