#pragma once

#include "mechanisms/kind.h"

// What the two gated units of FLASH share.
namespace fovea {

// Query, key (and the same for the linear half) are copies of one activation, each with a gain and a shift of its own:
// weights gain (pairs, d) and shift (pairs, d), in this order before all others.
std::vector<WeightSpec> copy_weights(std::int64_t pairs, std::int64_t d);
// The bias of a distance, `reach` tokens to both sides.
WeightSpec distance_weight(std::int64_t reach, std::string_view axes);
Var scaled_copy(const Call& call, const Var& z, std::int64_t pair);

// A diagonal_bias for sequences of at most `length`: table (2 reach - 1), by distance, with zeros for keys `reach` or
// more positions away.
Var by_distance(Tape& tape, const Var& table, std::int64_t length);

// How a layer feeds them: one wide head, q and k from one narrow activation, values and a gate of twice the width.
inline constexpr LayerStyle kGatedUnit{.one_head = true,
                                       .key_width = 128,
                                       .value_factor = 2,
                                       .shared_qk = true,
                                       .qk_activation = Activation::silu,
                                       .v_activation = Activation::silu,
                                       .gate = true};

}  // namespace fovea
