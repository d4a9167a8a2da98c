// Where score gradients go when the bias wants them.

#if defined(FOVEA_TILE_CPU_BIAS_GRADIENT_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef FOVEA_TILE_CPU_BIAS_GRADIENT_INL_H_
#undef FOVEA_TILE_CPU_BIAS_GRADIENT_INL_H_
#else
#define FOVEA_TILE_CPU_BIAS_GRADIENT_INL_H_
#endif

#include <algorithm>
#include <cstdint>

#include "hwy/highway.h"
#include "tile/contract.h"
#include "tile/cpu/score-inl.h"

HWY_BEFORE_NAMESPACE();
namespace fovea {
namespace tile {
namespace HWY_NAMESPACE {

// For one head of a piece.
template <class R>
struct BiasGradient {
  R* data = nullptr;  // at the piece's first pair
  std::int64_t query = 0, key = 0;
  bool add = false;  // several pairs share an element, which starts at zero

  BiasGradient(const BiasArray<void*>& bias, bool shared, const Piece& piece, std::int64_t head) {
    if (bias.data == nullptr) return;
    data = static_cast<R*>(bias.data) + (piece.batch * bias.batch + head * bias.head + piece.q0 * bias.query +
                                         piece.k0 * bias.key + piece.d_bias_at);
    query = bias.query * piece.q_step;
    key = bias.key * piece.k_step;
    add = shared;
  }

  // ds is [keys x lanes]; `transposed` is scratch of [queries x keys].
  HWY_NOINLINE void take(const TileAt& at, const R* ds, R* transposed) const {
    if (add && query == 1) return add_columns(at, ds);
    transpose_tile<R>({ds, at.lanes}, {transposed, at.kc}, at.kc, at.qc);
    for (std::int64_t i = 0; i < at.qc; ++i) {
      const R* HWY_RESTRICT from = transposed + i * at.kc;
      R* to = data + (at.q0 + i) * query + at.k0 * key;
      if (!add && key == 1)
        std::copy_n(from, at.kc, to);
      else
        for (std::int64_t j = 0; j < at.kc; ++j) to[j * key] = (add ? to[j * key] : R{0}) + from[j];
    }
  }

  // Queries lie side by side in ds and in the gradient.
  void add_columns(const TileAt& at, const R* ds) const {
    for (std::int64_t j = 0; j < at.kc; ++j) {
      const R* HWY_RESTRICT from = ds + j * at.lanes;
      R* HWY_RESTRICT to = data + (at.q0 + (at.k0 + j) * key);
      for (std::int64_t i = 0; i < at.qc; ++i) to[i] += from[i];
    }
  }
};

}  // namespace HWY_NAMESPACE
}  // namespace tile
}  // namespace fovea
HWY_AFTER_NAMESPACE();

#endif  // FOVEA_TILE_CPU_BIAS_GRADIENT_INL_H_
