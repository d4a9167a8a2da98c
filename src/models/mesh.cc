#include "models/mesh.h"

#include <algorithm>

#include "fovea/mechanism.h"
#include "models/network.h"

namespace fovea {
namespace {

// Blocks of local attention read each other's rows alone.
std::int64_t rows_together(const ModelConfig& config) {
  std::int64_t rows = 1;
  for (const std::string& layer : config.layers)
    if (const Mechanism mechanism = Mechanism::parse(layer); mechanism.name() == "diag")
      rows = std::max(rows, mechanism.integer("block"));
  return rows;
}

}  // namespace

void set_mesh(const Model& model, const dist::Mesh& mesh) {
  model.network().share_rows({mesh.sequence, rows_together(model.config())});
}

}  // namespace fovea
