#include "core/cuda/cards.h"

#include <cuda_runtime_api.h>

#include <algorithm>

#include "core/cuda/memory.h"
#include "core/devices.h"

namespace fovea::device {
namespace {

__global__ void probe_kernel() {}

bool is_served(int index) {
  cudaFuncAttributes attributes{};
  check_cuda(cudaSetDevice(index), "a card");
  const bool served = cudaFuncGetAttributes(&attributes, probe_kernel) == cudaSuccess;
  cudaGetLastError();
  return served;
}

std::string version_text(int version) {
  return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

// "NVIDIA H200, compute capability 9.0".
std::string capability(const Card& card) {
  return card.name + ", compute capability " + std::to_string(card.major) + "." + std::to_string(card.minor);
}

// Why the driver names no card.
std::string trouble_of(const Cards& found, cudaError_t status) {
  if (found.driver == 0) return "there is no driver";
  if (status == cudaErrorNoDevice) return "there is no card";
  if (status == cudaErrorInsufficientDriver)
    return "the driver is for CUDA " + version_text(found.driver) + ", this build for " + version_text(found.runtime);
  return cudaGetErrorString(status);
}

std::string without_kernels(const Card& card) {
  return "this build has kernels for " FOVEA_CUDA_ARCHS ", none for " + capability(card);
}

}  // namespace

Cards look_at_cards() {
  Cards found;
  cudaRuntimeGetVersion(&found.runtime);
  cudaDriverGetVersion(&found.driver);
  int count = 0;
  const cudaError_t status = cudaGetDeviceCount(&count);
  if (status != cudaSuccess) {
    cudaGetLastError();
    found.trouble = trouble_of(found, status);
    return found;
  }
  for (int i = 0; i < count; ++i) {
    cudaDeviceProp properties{};
    check_cuda(cudaGetDeviceProperties(&properties, i), "a card's properties");
    found.list.push_back({properties.name, properties.major, properties.minor, properties.multiProcessorCount,
                          properties.totalGlobalMem, is_served(i)});
  }
  if (found.list.empty())
    found.trouble = "there is no card";
  else if (std::none_of(found.list.begin(), found.list.end(), [](const Card& card) { return card.served; }))
    found.trouble = without_kernels(found.list.front());
  return found;
}

const Cards& cards() {
  static const Cards found = look_at_cards();
  return found;
}

const Card& card_at(const Cards& found, int index) {
  if (found.list.empty()) fail(ErrorCode::unsupported, "no CUDA: " + found.trouble, "device", "--device cpu");
  const auto count = static_cast<int>(found.list.size());
  if (index < 0 || index >= count)
    fail(ErrorCode::usage, "card " + std::to_string(index) + " of " + std::to_string(count), "device",
         count == 1 ? "--device cuda" : "--device cuda:0 to cuda:" + std::to_string(count - 1));
  const Card& card = found.list[static_cast<std::size_t>(index)];
  if (!card.served)
    fail(ErrorCode::unsupported, without_kernels(card), "device",
         "--device cpu, or make cuda CUDA_ARCHS=" + std::to_string(card.major) + std::to_string(card.minor));
  return card;
}

}  // namespace fovea::device

namespace fovea {

template <>
DeviceState kernels::look_at_devices<Device::cuda>() {
  const device::Cards& found = device::cards();
  DeviceState state;
  state.device = Device::cuda;
  state.trouble = found.trouble;
  state.versions = "kernels for " FOVEA_CUDA_ARCHS ", runtime " + device::version_text(found.runtime) + ", driver " +
                   (found.driver == 0 ? "none" : "for " + device::version_text(found.driver));
  for (std::size_t i = 0; i < found.list.size(); ++i) {
    const device::Card& card = found.list[i];
    std::size_t free = 0, all = 0;
    device::check_cuda(cudaSetDevice(static_cast<int>(i)), "a card");
    device::check_cuda(cudaMemGetInfo(&free, &all), "a card's memory");
    state.list.push_back({device::capability(card), card.bytes, free});
    if (!card.served) state.list.back().trouble = device::without_kernels(card);
  }
  return state;
}

}  // namespace fovea
