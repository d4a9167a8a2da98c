#pragma once

#include "mechanisms/kind.h"

// What the two gated units of FLASH share.
namespace fovea {

// Query, key (and the same for the linear half) are copies of one activation, each with a gain and a shift of its own:
// weights gain (pairs, d) and shift (pairs, d), in this order before all others.
std::vector<WeightSpec> copy_weights(std::int64_t pairs, std::int64_t d);
Var scaled_copy(const Call& call, const Var& z, std::int64_t pair);

// table (2 reach - 1) laid out by distance: (1, 1, n_q, n_k) with table[j - i + reach - 1] where the key j is fewer
// than `reach` positions from the query i, else 0. Queries are the last n_q of n_k positions.
struct Distances {
  std::int64_t n_q, n_k;
};
Var toeplitz(Tape& tape, const Var& table, const Distances& sizes);

// How a layer feeds them: one wide head, q and k from one narrow activation, values and a gate of twice the width.
inline constexpr LayerStyle kGatedUnit{.one_head = true,
                                       .key_width = 128,
                                       .value_factor = 2,
                                       .shared_qk = true,
                                       .qk_activation = Activation::silu,
                                       .v_activation = Activation::silu,
                                       .gate = true};

}  // namespace fovea
