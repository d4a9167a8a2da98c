#include "gemm/rate.h"

#include "core/visit_device.h"
#include "gemm/gemm_kernels.h"

namespace fovea::gemm {

double gemm_rate(const Context& context, std::int64_t n) {
  double seconds = 0.0;
  visit_device(*context.memory(), [&]<Device D>() { seconds = kernels::time_product<D>(context, n); });
  return 2.0 * static_cast<double>(n) * static_cast<double>(n) * static_cast<double>(n) / seconds;
}

std::string product_library(Device device) {
  return visit_built(BuiltDevices(), device, []<Device D>() { return kernels::product_library<D>(); });
}

}  // namespace fovea::gemm
