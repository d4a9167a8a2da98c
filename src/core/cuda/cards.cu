#include "core/cuda/cards.h"

#include <cuda_runtime_api.h>

#include "core/cuda/memory.h"

namespace fovea::device {
namespace {

Cards ask() {
  Cards found;
  cudaRuntimeGetVersion(&found.runtime);
  cudaDriverGetVersion(&found.driver);
  int count = 0;
  const cudaError_t status = cudaGetDeviceCount(&count);
  if (status != cudaSuccess) {
    cudaGetLastError();
    found.trouble = cudaGetErrorString(status);
    return found;
  }
  for (int i = 0; i < count; ++i) {
    cudaDeviceProp properties{};
    check_cuda(cudaGetDeviceProperties(&properties, i), "a card's properties");
    found.list.push_back({properties.name, properties.major, properties.minor, properties.multiProcessorCount,
                          properties.totalGlobalMem});
  }
  if (found.list.empty()) found.trouble = "there is no card";
  return found;
}

}  // namespace

const Cards& cards() {
  static const Cards found = ask();
  return found;
}

const Card& card_at(int index) {
  const Cards& found = cards();
  if (found.list.empty()) fail(ErrorCode::unsupported, "no CUDA: " + found.trouble, "device", "--device cpu");
  const auto count = static_cast<int>(found.list.size());
  if (index < 0 || index >= count)
    fail(ErrorCode::usage, "card " + std::to_string(index) + " of " + std::to_string(count), "device",
         count == 1 ? "--device cuda" : "--device cuda:0 to cuda:" + std::to_string(count - 1));
  return found.list[static_cast<std::size_t>(index)];
}

}  // namespace fovea::device
