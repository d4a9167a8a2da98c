#pragma once

#include "dist/mesh.h"
#include "models/pipeline.h"

namespace fovea {

// A model shares its work with other ranks from now on, all of which make the same calls. The same results, up to the
// order of sums: losses are those of all rows, and the gradients of all ranks add up to those of one. Where ranks share
// the weights its parameters become this rank's parts of them, and where ranks have its layers in stages those of its
// layers, new Vars; that is done once. Refuses a mesh that the model has no form for.
void set_mesh(Model& model, const dist::Mesh& mesh);

// How this rank runs the model. Model::forward() and Model::loss() do all of it at once, for all ranks, where nothing
// is recorded; training and evaluation go chunk by chunk.
const Pipeline& pipeline_of(const Model& model);
Pipeline::Pass forward_chunk(const Model& model, Tape& tape, const Batch& batch, const LossOptions* options,
                             std::int64_t chunk);

// Shares of the weights of its layers, where each rank keeps one; null: they are whole.
WeightShares* weight_shares_of(const Model& model);

// A parameter of the whole model, in the order of a file.
struct WholeParameter {
  std::string name;
  Shape shape;
  DType dtype = DType::f32;
  bool trained = true;
  int stage = 0;  // the first rank of the pipeline that has it
};
const std::vector<WholeParameter>& whole_parameters(const Model& model);

}  // namespace fovea
