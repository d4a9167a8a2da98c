#pragma once

namespace fovea::gemm {

// Before anything else of oneDNN is used. The kernels that oneDNN 2 has for AMX end in illegal instructions or NaN
// where a product is small (2.6.3, bf16, a sum of 7 or 21 terms): it stays below them, unless DNNL_MAX_CPU_ISA says
// what it may use.
void limit_vendor();

}  // namespace fovea::gemm
