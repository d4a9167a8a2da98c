#pragma once

#include "fovea/error.h"

namespace fovea {

// A setting by a name that no field has: to those who gave it as an argument, a wrong argument and not a wrong value.
class UnknownField : public Error {
 public:
  using Error::Error;
};

}  // namespace fovea
