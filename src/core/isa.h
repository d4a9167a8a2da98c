#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "fovea/export.h"

namespace fovea {

// Instruction sets a kernel may be chosen for, weakest first.
enum class Isa { portable, avx2, avx512, avx512_bf16 };

FOVEA_EXPORT std::string_view name_of(Isa isa);

// Those this machine can run, weakest first.
FOVEA_EXPORT std::vector<Isa> available_isas();

// The strongest one, or what FOVEA_ISA names. An unknown or missing one is a usage error.
FOVEA_EXPORT Isa chosen_isa();

// Forces one for the whole process (tests, benchmarks). Not to be called while kernels run.
FOVEA_EXPORT void force_isa(Isa isa);

// For kernels outside Highway: may this one run now?
inline bool use_avx512_bf16() { return chosen_isa() == Isa::avx512_bf16; }

}  // namespace fovea
