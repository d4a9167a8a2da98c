#pragma once

#include "dist/group.h"
#include "fovea/weight_cut.h"

// Weights that the ranks of a group have parts of. A group of one has all of them.
namespace fovea::divided {

Shape whole_shape(const Shape& part, const WeightCut& cut);
// Of a rank. Refuses more ranks than a run has entries.
Shape part_shape(const Shape& whole, const WeightCut& cut, const dist::Group& ranks, int rank);

// This rank's part of what lies whole somewhere, into `part`.
void copy_part(const Tensor& whole, const WeightCut& cut, const dist::Group& ranks, const Tensor& part);
// The same into memory of its own.
Tensor part_of(const Context& context, const Tensor& whole, const WeightCut& cut, const dist::Group& ranks,
               Lifetime lifetime = Lifetime::persistent);
// All of it, of everybody's part: a call of all ranks.
Tensor whole_of(const Context& context, const Tensor& part, const WeightCut& cut, const dist::Group& ranks);

}  // namespace fovea::divided
