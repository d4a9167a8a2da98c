#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "core/built_devices.h"

namespace fovea {

// What there is of one kind of device that is built.
struct DeviceState {
  struct Entry {
    std::string name;
    std::size_t bytes, available;
    std::string trouble = {};  // why it cannot be used; empty: it can
  };
  Device device = Device::cpu;
  std::vector<Entry> list;
  std::string versions;  // of driver, runtime and kernels
  std::string trouble;   // why none of the list can be used
};
std::vector<DeviceState> devices();  // every kind, the cpu first

template <Device... kBuilt>
constexpr bool holds(DeviceList<kBuilt...>, Device device) {
  return ((device == kBuilt) || ...);
}
constexpr bool is_built(Device device) { return holds(BuiltDevices(), device); }

namespace kernels {

template <Device>
DeviceState look_at_devices();

}  // namespace kernels
}  // namespace fovea
