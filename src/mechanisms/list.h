#pragma once

#include "mechanisms/kind.h"

namespace fovea {

const MechanismKind& softmax_kind();
const MechanismKind& rela_kind();
const MechanismKind& diag_kind();
const MechanismKind& linear_kind();
const MechanismKind& norm_kind();
const MechanismKind& lara_kind();
const MechanismKind& flash_quad_kind();
const MechanismKind& flash_gau_kind();
const MechanismKind& polysketch_kind();
const MechanismKind& kernelized_kind();
const MechanismKind& linformer_kind();
const MechanismKind& nystrom_kind();
const MechanismKind& skyformer_kind();
const MechanismKind& long_short_kind();
const MechanismKind& s4d_kind();

// The one list of mechanisms. Lookup by name, `fovea list`, the conformance suite, the benchmarks and the docs index
// all come from it.
inline constexpr const MechanismKind& (*kMechanisms[])() = {
    softmax_kind,   rela_kind,       diag_kind,      linear_kind,     norm_kind,
    lara_kind,      flash_quad_kind, flash_gau_kind, polysketch_kind, kernelized_kind,
    linformer_kind, nystrom_kind,    skyformer_kind, long_short_kind, s4d_kind,
};

}  // namespace fovea
