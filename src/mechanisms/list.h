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
const MechanismKind& window_kind();
const MechanismKind& dilated_kind();
const MechanismKind& star_kind();
const MechanismKind& sparse_fixed_kind();
const MechanismKind& sparse_strided_kind();
const MechanismKind& logsparse_kind();
const MechanismKind& cascade_kind();
const MechanismKind& longformer_kind();
const MechanismKind& bigbird_kind();
const MechanismKind& fixed_encoder_kind();
const MechanismKind& informer_kind();
const MechanismKind& reformer_kind();
const MechanismKind& sinkhorn_kind();
const MechanismKind& transformer_xl_kind();
const MechanismKind& compressive_kind();
const MechanismKind& memformer_kind();
const MechanismKind& linear_kind();
const MechanismKind& norm_kind();
const MechanismKind& performer_kind();
const MechanismKind& rfa_kind();
const MechanismKind& cosformer_kind();
const MechanismKind& retnet_kind();
const MechanismKind& lightning_kind();
const MechanismKind& gla_kind();
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
    softmax_kind,
    taylor_kind,
    topk_kind,
    sparsemax_kind,
    entmax15_kind,
    margin_kind,
    rela_kind,
    relu2_kind,
    sa_softmax_kind,
    sigmoid_kind,
    additive_kind,
    shaw_kind,
    xl_kind,
    diag_kind,
    window_kind,
    dilated_kind,
    star_kind,
    sparse_fixed_kind,
    sparse_strided_kind,
    logsparse_kind,
    cascade_kind,
    longformer_kind,
    bigbird_kind,
    fixed_encoder_kind,
    informer_kind,
    reformer_kind,
    sinkhorn_kind,
    transformer_xl_kind,
    compressive_kind,
    memformer_kind,
    linear_kind,
    norm_kind,
    performer_kind,
    rfa_kind,
    cosformer_kind,
    retnet_kind,
    lightning_kind,
    gla_kind,
    lara_kind,
    flash_quad_kind,
    flash_gau_kind,
    polysketch_kind,
    kernelized_kind,
    linformer_kind,
    nystrom_kind,
    skyformer_kind,
    long_short_kind,
    s4d_kind,
};

}  // namespace fovea
