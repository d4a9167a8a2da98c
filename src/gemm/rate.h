#pragma once

#include <cstdint>
#include <string>

#include "fovea/context.h"
#include "fovea/export.h"

namespace fovea::gemm {

// Floating-point operations per second of one oneDNN sgemm of n^3 on the context's threads: the anchor that benchmark
// percentages refer to. Runs it twice and times the second.
FOVEA_EXPORT double gemm_rate(const Context& context, std::int64_t n = 2048);

// Whose products a device uses: "oneDNN 2.6.3", "cuBLASLt 13.0.2".
FOVEA_EXPORT std::string product_library(Device device);

}  // namespace fovea::gemm
