#include "mechanisms/weights/simplex.h"

namespace fovea {

const MechanismKind& entmax15_kind() {
  static const MechanismKind kind = simplex_kind<tile::RowRuleKind::entmax15, reference::entmax15_weights>({
      .name = "entmax15",
      .summary = "between softmax and sparsemax (alpha 1.5): smooth, with exact zeros",
      .paper = "Peters, Niculae and Martins 2019, Sparse Sequence-to-Sequence Models",
  });
  return kind;
}

}  // namespace fovea
