#include "gemm/rate.h"

#include <omp.h>

#include <oneapi/dnnl/dnnl.h>
#include <chrono>

#include "core/signals.h"
#include "fovea/tensor.h"

namespace fovea::gemm {

double gemm_rate(const Context& context, std::int64_t n) {
  const Tensor a = Tensor::empty(context, {n, n}), b = Tensor::empty(context, {n, n}),
               c = Tensor::empty(context, {n, n});
  a.fill(0.5);
  b.fill(0.25);
  omp_set_num_threads(context.threads());
  const SignalPause pause;
  double seconds = 0.0;
  for (int run = 0; run < 2; ++run) {
    const auto start = std::chrono::steady_clock::now();
    if (dnnl_sgemm('N', 'N', n, n, n, 1.0f, a.data<float>(), n, b.data<float>(), n, 0.0f, c.data<float>(), n) !=
        dnnl_success)
      fail(ErrorCode::internal, "oneDNN refused an sgemm of " + std::to_string(n) + "^3");
    seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  }
  return 2.0 * static_cast<double>(n) * static_cast<double>(n) * static_cast<double>(n) / seconds;
}

}  // namespace fovea::gemm
