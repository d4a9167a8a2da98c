#include "gemm/cpu/vendor_isa.h"

#include <oneapi/dnnl/dnnl.h>

#include <cstdlib>
#include <mutex>

#include "fovea/error.h"

namespace fovea::gemm {
namespace {

bool is_told() { return std::getenv("DNNL_MAX_CPU_ISA") != nullptr || std::getenv("ONEDNN_MAX_CPU_ISA") != nullptr; }

void set_limit() {
  if (dnnl_version()->major >= 3 || is_told()) return;
  // Refused where somebody else in the process used oneDNN first; then what that one may use is as it is.
  const dnnl_status_t status = dnnl_set_max_cpu_isa(dnnl_cpu_isa_avx512_core_bf16);
  if (status != dnnl_success && status != dnnl_invalid_arguments && status != dnnl_unimplemented)
    fail(ErrorCode::internal, "oneDNN refused a limit to its instruction sets");
}

}  // namespace

void limit_vendor() {
  static std::once_flag once;
  std::call_once(once, set_limit);
}

}  // namespace fovea::gemm
