#pragma once

#include <cstdint>
#include <string>

#include "dist/group.h"

namespace fovea::dist {

// What ranks that have the same weights keep of a share of them alone; each also divides what stands before it.
enum class Divide : std::uint8_t { nothing, state, gradients, weights };

// How ranks divide the work: the sizes of the axes of --mesh.
struct MeshShape {
  std::int64_t data = 1;           // each has other examples
  std::int64_t sequence = 1;       // each has other rows of the same examples
  std::int64_t tensor = 1;         // each has other heads, columns and tokens of the weights
  std::int64_t pipeline = 1;       // each has other layers
  std::int64_t chunks = 1;         // runs of neighbouring layers that each rank of a pipeline has
  Divide divide = Divide::nothing;
  std::int64_t compare_every = 0;  // steps after which ranks compare their weights; 0: when a run begins

  bool divides(Divide what) const { return divide >= what; }
  std::int64_t ranks() const { return data * sequence * tensor * pipeline; }
  std::string text() const;  // "data=2,sequence=4,tensor=1,pipeline=1"

  // "data=2,sequence=4": axes that are left out have one rank. Empty: all ranks on the data axis. Refuses what is no
  // mesh, has no form yet, or does not multiply to the ranks there are.
  static MeshShape parse(const std::string& text, std::int64_t ranks);
};

// The ranks of a program, as groups along each axis. Those who share weights talk most: they are neighbours among all,
// then those of a sequence; those of a pipeline talk least.
struct Mesh {
  MeshShape shape;
  Group all, data, sequence, tensor, pipeline;
  Group same_weights;   // along data and sequence: what each does to its weights, the others do as well
  Group same_examples;  // along sequence and tensor: all of them have the same losses
  Group same_layers;    // along data, sequence and tensor: what none of them divides, all of them have
  Group all_weights;    // along tensor and pipeline: each has other weights, together they have all

  Mesh() = default;  // this process alone
  Mesh(const Group& ranks, const MeshShape& shape);

  bool leads() const { return all.rank() == 0; }  // it prints, logs, writes and decides
};

}  // namespace fovea::dist
