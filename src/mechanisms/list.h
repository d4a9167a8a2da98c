#pragma once

#include "mechanisms/kind.h"

namespace fovea {

const MechanismKind& softmax_kind();
const MechanismKind& rela_kind();
const MechanismKind& taylor_kind();
const MechanismKind& topk_kind();
const MechanismKind& sparsemax_kind();
const MechanismKind& entmax15_kind();
const MechanismKind& margin_kind();
const MechanismKind& relu2_kind();
const MechanismKind& sa_softmax_kind();
const MechanismKind& sigmoid_kind();
const MechanismKind& additive_kind();
const MechanismKind& shaw_kind();
const MechanismKind& xl_kind();
const MechanismKind& diag_kind();
const MechanismKind& linear_kind();
const MechanismKind& norm_kind();

// The one list of mechanisms. Lookup by name, `fovea list`, the conformance suite, the benchmarks and the docs index
// all come from it.
inline constexpr const MechanismKind& (*kMechanisms[])() = {
    softmax_kind,    taylor_kind,  topk_kind,     sparsemax_kind, entmax15_kind, margin_kind, rela_kind,   relu2_kind,
    sa_softmax_kind, sigmoid_kind, additive_kind, shaw_kind,      xl_kind,       diag_kind,   linear_kind, norm_kind,
};

}  // namespace fovea
