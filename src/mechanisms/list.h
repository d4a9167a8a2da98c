#pragma once

#include "mechanisms/kind.h"

namespace fovea {

const MechanismKind& softmax_kind();
const MechanismKind& rela_kind();
const MechanismKind& diag_kind();
const MechanismKind& linear_kind();
const MechanismKind& norm_kind();
const MechanismKind& performer_kind();
const MechanismKind& rfa_kind();
const MechanismKind& cosformer_kind();
const MechanismKind& retnet_kind();
const MechanismKind& lightning_kind();
const MechanismKind& gla_kind();

// The one list of mechanisms. Lookup by name, `fovea list`, the conformance suite, the benchmarks and the docs index
// all come from it.
inline constexpr const MechanismKind& (*kMechanisms[])() = {
    softmax_kind, rela_kind,      diag_kind,   linear_kind,    norm_kind, performer_kind,
    rfa_kind,     cosformer_kind, retnet_kind, lightning_kind, gla_kind,
};

}  // namespace fovea
