// What has no kernel for a card yet: a kernel that is written takes its line out of here, and the last one the file.

#include <string>

#include "ops/expert_linear_kernels.h"
#include "ops/experts_kernels.h"

namespace fovea {
namespace {

[[noreturn]] void missing(const char* kernel) {
  fail(ErrorCode::unsupported, std::string("there is no kernel for CUDA yet: ") + kernel, "device", "--device cpu");
}

}  // namespace

template <>
void kernels::route<Device::cuda>(const Context&, const RouteRows&) {
  missing("route");
}

template <>
void kernels::route_backward<Device::cuda>(const Context&, const RoutePull&) {
  missing("route_backward");
}

template <>
void kernels::expert_linear<Device::cuda>(const Context&, const ExpertProducts&) {
  missing("expert_linear");
}

template <>
void kernels::expert_linear_backward<Device::cuda>(const Context&, const ExpertPulls&) {
  missing("expert_linear_backward");
}

}  // namespace fovea
