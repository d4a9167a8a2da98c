#pragma once

#include <string>
#include <type_traits>

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

// Calls f<D>() for the device of a memory, with the memory open. An answer that is not a tensor is for the host, which
// has to wait for it: it counts as a read.
template <class F>
auto visit_device(Memory& memory, const F& f) {
  const OpenMemory open(memory);
  using Answer = decltype(visit_built(BuiltDevices(), memory.device(), f));
  if constexpr (std::is_void_v<Answer> || requires(Answer a) { a.device(); }) {
    return visit_built(BuiltDevices(), kernels_of(memory.device()), f);
  } else {
    Answer answer = visit_built(BuiltDevices(), kernels_of(memory.device()), f);
    memory.read(&answer, &answer, 0);
    return answer;
  }
}

// Refuses tensors, also those inside of structs, that are not on a device. Nothing is nowhere.
template <class T>
void check_device(Device device, const T& operand) {
  if constexpr (requires { operand.device(), operand.defined(); }) {
    if (operand.defined() && operand.numel() > 0 && operand.device() != device) refuse_mixed(operand.device(), device);
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
