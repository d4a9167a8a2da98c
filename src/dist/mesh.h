#pragma once

#include <cstdint>
#include <string>

#include "dist/group.h"

namespace fovea::dist {

// How ranks divide the work: the sizes of the axes of --mesh.
struct MeshShape {
  std::int64_t data = 1;           // each has other examples
  std::int64_t sequence = 1;       // each has other rows of the same examples
  std::int64_t tensor = 1;         // each has other heads, columns and tokens of the weights
  bool divides_state = false;      // each keeps the optimiser's state of its share of the weights alone
  std::int64_t compare_every = 0;  // steps after which ranks compare their weights; 0: when a run begins

  std::int64_t ranks() const { return data * sequence * tensor; }
  std::string text() const;  // "data=2,sequence=4,tensor=1"

  // "data=2,sequence=4": axes that are left out have one rank. Empty: all ranks on the data axis. Refuses what is no
  // mesh, has no form yet, or does not multiply to the ranks there are.
  static MeshShape parse(const std::string& text, std::int64_t ranks);
};

// The ranks of a program, as groups along each axis. Those who share weights talk most: they are neighbours among all,
// then those of a sequence.
struct Mesh {
  MeshShape shape;
  Group all, data, sequence, tensor;
  Group same_weights;   // along data and sequence: what each does to its weights, the others do as well
  Group same_examples;  // along sequence and tensor: all of them have the same losses

  Mesh() = default;  // this process alone
  Mesh(const Group& ranks, const MeshShape& shape);

  bool leads() const { return all.rank() == 0; }  // it prints, logs, writes and decides
};

}  // namespace fovea::dist
