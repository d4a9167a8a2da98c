#include "tile/cuda/bias_gradient.h"

#include <set>

namespace fovea::tile::cuda {

BiasOwner owner_of(const BiasArray<void*>& bias) {
  if (bias.is_diagonal()) return BiasOwner::diagonal;
  if (bias.query == 0 && bias.key == 0) return BiasOwner::head;
  if (bias.query == 0) return BiasOwner::keys;
  return bias.key == 0 ? BiasOwner::queries : BiasOwner::tile;
}

bool pieces_are_apart(const BiasArray<void*>& bias, const Schedule& schedule) {
  if (schedule.host_pieces.size() == 1 || bias.is_diagonal()) return true;  // of a diagonal each has its own elements
  std::set<std::int64_t> batches;
  bool one_head = false;
  for (const PieceView& piece : schedule.host_pieces) {
    batches.insert(piece.batch);
    one_head |= piece.kv_head >= 0;
  }
  if (bias.batch != 0 && batches.size() == schedule.host_pieces.size()) return true;
  // Pieces share no query of a head.
  return bias.query != 0 && (bias.batch != 0 || batches.size() == 1) && (bias.head != 0 || !one_head);
}

}  // namespace fovea::tile::cuda
