#include "core/isa.h"
#include "tile/cpu/kernel.h"

namespace fovea::tile {

Numbers numbers_of(const Problem& problem) {
  const bool has_pairs = use_avx512_bf16();  // FOVEA_ISA is read at the first question
  if (problem.dtype == DType::f64) return Numbers::f64;
  return problem.dtype == DType::bf16 && has_pairs ? Numbers::bf16_pairs : Numbers::f32;
}

}  // namespace fovea::tile
