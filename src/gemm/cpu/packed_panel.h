#pragma once

#include <cstdint>

namespace fovea::gemm::cpu {

// One panel of 32 outputs times some rows.
struct Panel {
  const void* weights;  // (in, 32)
  const float* scales;  // (32), of i8 alone
  const float* x;       // (rows, in)
  std::int64_t rows, in;
  float* y;  // (rows, 32)
};
void multiply_f32(const Panel& panel);
void multiply_bf16(const Panel& panel);
void multiply_i8(const Panel& panel);

}  // namespace fovea::gemm::cpu
