#include <oneapi/dnnl/dnnl.h>
#include <chrono>

#include "core/signals.h"
#include "gemm/cpu/vendor_isa.h"
#include "gemm/cpu/vendor_threads.h"
#include "gemm/gemm_kernels.h"

namespace fovea {

template <>
double kernels::time_product<Device::cpu>(const Context& context, std::int64_t n) {
  const Tensor a = Tensor::empty(context, {n, n}), b = Tensor::empty(context, {n, n}),
               c = Tensor::empty(context, {n, n});
  a.fill(0.5);
  b.fill(0.25);
  gemm::limit_vendor();
  const gemm::VendorThreads threads(context.threads());
  const SignalPause pause;
  double seconds = 0.0;
  for (int run = 0; run < 2; ++run) {
    const auto start = std::chrono::steady_clock::now();
    if (dnnl_sgemm('N', 'N', n, n, n, 1.0f, a.data<float>(), n, b.data<float>(), n, 0.0f, c.data<float>(), n) !=
        dnnl_success)
      fail(ErrorCode::internal, "oneDNN refused an sgemm of " + std::to_string(n) + "^3");
    seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  }
  return seconds;
}

template <>
std::string kernels::product_library<Device::cpu>() {
  const dnnl_version_t* version = dnnl_version();
  return "oneDNN " + std::to_string(version->major) + "." + std::to_string(version->minor) + "." +
         std::to_string(version->patch);
}

}  // namespace fovea
