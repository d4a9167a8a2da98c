#pragma once

#include "dist/mesh.h"
#include "fovea/train.h"

namespace fovea {

// Of a split, so many examples are evaluated.
inline std::int64_t eval_examples(const Split& split, std::int64_t limit) {
  return limit > 0 ? std::min(limit, split.size()) : split.size();
}

// evaluate() by all ranks of a mesh, batch by batch in turn; every one of them gets the report, the same bits as one
// rank alone would. Stopped, it has fewer examples than asked for on all ranks.
EvalReport evaluate(Context& context, const Model& model, const Split& split, const EvalOptions& options,
                    const dist::Mesh& mesh);

}  // namespace fovea
