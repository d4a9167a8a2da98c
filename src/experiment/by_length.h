#pragma once

#include <vector>

#include "dist/mesh.h"
#include "fovea/train.h"
#include "io/field_visitor.h"

namespace fovea {

// How many of the inputs of some lengths were answered right.
struct LengthScore {
  std::int64_t from = 0, to = 0;  // tokens, both included
  std::int64_t examples = 0;
  double accuracy = 0.0;

  void fields(FieldVisitor& v);
};

struct LengthReport {
  EvalReport all;
  std::vector<LengthScore> groups;  // short to long; none where lengths hardly differ or nothing has classes
};

// evaluate(), in as many goes as there are groups of lengths of about equal size: all examples, each once.
LengthReport evaluate_by_length(Context& context, const Model& model, const Split& split, const EvalOptions& options,
                                const dist::Mesh& mesh);

}  // namespace fovea
