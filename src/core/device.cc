#include "core/devices.h"
#include "core/visit_device.h"

namespace fovea {

std::string_view name_of(Device device) {
  constexpr std::string_view kNames[] = {"cpu", "cuda", "fenced"};
  return kNames[static_cast<std::size_t>(device)];
}

namespace {

template <Device... kBuilt>
std::vector<DeviceState> look_at(DeviceList<kBuilt...>) {
  return {kernels::look_at_devices<kBuilt>()...};
}

}  // namespace

std::vector<DeviceState> devices() { return look_at(BuiltDevices()); }

void refuse_device(Device device) {
  fail(ErrorCode::unsupported,
       "this build has no backend for " + std::string(device == Device::cuda ? "CUDA" : name_of(device)), "device",
       "--device cpu");
}

void refuse_mixed(Device device, Device expected) {
  const std::string here(name_of(expected)), there(name_of(device));
  fail(ErrorCode::usage, "an operation on " + here + " was given a tensor on " + there, "device",
       "copy it first: tensor.clone(context), with a context on " + here);
}

}  // namespace fovea
