#pragma once

#include "dist/mesh.h"
#include "fovea/model.h"

namespace fovea {

// A model shares its work with other ranks from now on, all of which make the same calls. The same results, up to the
// order of sums: losses are those of all rows, and the gradients of all ranks add up to those of one. Where ranks share
// the weights its parameters become this rank's parts of them, new Vars; that is done once. Refuses a mesh that the
// model has no form for.
void set_mesh(Model& model, const dist::Mesh& mesh);

}  // namespace fovea
