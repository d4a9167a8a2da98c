#pragma once

#include <ranges>
#include <string>
#include <type_traits>
#include <utility>

#include "core/built_devices.h"
#include "core/fields.h"
#include "fovea/context.h"
#include "fovea/error.h"

// The one place where a kernel is chosen. Kernels are declared once, as function templates on the device, and defined
// by specialisation for each device that is built:
//   visit_device(context, io, [&]<Device D>() { kernels::activate<D>(context, io); });
namespace fovea {

// Memory whose kernels run: open to them for as long as this lives.
class OpenMemory {
 public:
  explicit OpenMemory(Memory& memory) : memory_(memory) { memory_.enter(); }
  ~OpenMemory() { memory_.leave(); }
  OpenMemory(const OpenMemory&) = delete;
  OpenMemory& operator=(const OpenMemory&) = delete;

 private:
  Memory& memory_;
};

// Whose kernels serve the memory of a device.
constexpr Device kernels_of(Device device) { return device == Device::fenced ? Device::cpu : device; }

[[noreturn]] void refuse_device(Device device);                  // not built
[[noreturn]] void refuse_mixed(Device device, Device expected);  // a tensor that is elsewhere

template <Device... kBuilt, class F>
auto visit_built(DeviceList<kBuilt...>, Device device, const F& f) {
  constexpr auto kFirst = [](Device first, auto...) { return first; }(kBuilt...);
  using Result = decltype(f.template operator()<kFirst>());
  if constexpr (std::is_void_v<Result>) {
    if (!((device == kBuilt && (f.template operator()<kBuilt>(), true)) || ...)) refuse_device(device);
  } else {
    Result result{};
    if (!((device == kBuilt && (result = f.template operator()<kBuilt>(), true)) || ...)) refuse_device(device);
    return result;
  }
}

// Calls f<D>() for the device of a memory, with the memory open. What a kernel finds out it leaves in tensors: the host
// may read them, which means to wait.
template <class F>
auto visit_device(Memory& memory, const F& f) {
  const OpenMemory open(memory);
  using Result = decltype(visit_built(BuiltDevices(), memory.device(), f));
  static_assert(
      std::is_void_v<Result> || requires { std::declval<Result>().device(); }, "a kernel gives tensors or nothing");
  return visit_built(BuiltDevices(), kernels_of(memory.device()), f);
}

// Refuses tensors, also those inside of structs and lists, that are not on a device. Nothing is nowhere.
template <class T>
void check_device(Device device, const T& operand) {
  if constexpr (requires { operand.device(), operand.defined(); }) {
    if (operand.defined() && operand.numel() > 0 && operand.device() != device) refuse_mixed(operand.device(), device);
  } else if constexpr (std::ranges::range<T>) {
    if constexpr (!std::is_trivially_copyable_v<std::ranges::range_value_t<T>>)
      for (const auto& one : operand) check_device(device, one);
  } else if constexpr (std::is_aggregate_v<T> && std::is_class_v<T>) {
    with_fields(operand, [&](const auto&... fields) { (check_device(device, fields), ...); });
  }
}

// The same for a kernel with a context. `io`: the tensors of the kernel, each of which must be on its device.
template <class Io, class F>
auto visit_device(const Context& context, const Io& io, const F& f) {
  check_device(context.device(), io);
  return visit_device(*context.memory(), f);
}

}  // namespace fovea
