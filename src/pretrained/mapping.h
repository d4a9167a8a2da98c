#pragma once

#include <string>
#include <vector>

#include "pretrained/architecture.h"

namespace fovea::pretrained {

// A tensor of theirs as a view of one of our parameters, which must outlive it: reading copies into the view, writing
// copies out of it, and so both follow the same table.
struct MappedTensor {
  std::vector<std::string> names;  // the first is written, any is read
  Tensor view;                     // its elements in their order
  Shape shape;                     // theirs, of the same elements
};

struct Naming {
  const Architecture& architecture;
  const Variant& variant;
  bool prefixed;               // names begin with the architecture's prefix, where it stands on a base model
  bool reorder_pairs = false;  // rope turns neighbours in the model, halves in the file
};

// Every parameter of the model, in the model's order.
std::vector<MappedTensor> mapped_tensors(const Model& model, const Naming& naming);

// A name that fits the pattern; "*" stands for any text.
bool fits(std::string_view name, std::string_view pattern);

}  // namespace fovea::pretrained
