#pragma once

#include <memory>
#include <string>

#include "fovea/model.h"

namespace fovea::python {

// A model and the context it lives in.
struct OwnedModel {
  std::shared_ptr<Context> context;
  Model model;
};

}  // namespace fovea::python
