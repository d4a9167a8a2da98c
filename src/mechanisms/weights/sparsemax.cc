#include "mechanisms/weights/simplex.h"

namespace fovea {

const MechanismKind& sparsemax_kind() {
  static const MechanismKind kind = simplex_kind<tile::RowRuleKind::sparsemax, reference::sparsemax_weights>({
      .name = "sparsemax",
      .summary = "the nearest point of the simplex to the scores: most weights are exactly zero",
      .paper = "Martins and Astudillo 2016, From Softmax to Sparsemax",
  });
  return kind;
}

}  // namespace fovea
