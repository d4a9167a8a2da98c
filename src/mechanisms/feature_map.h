#pragma once

#include "fovea/ops.h"
#include "scan/contract.h"

namespace fovea {

// What a feature map of the scan engine is as an operation of its own.
Activation activation_of(scan::Map map);

}  // namespace fovea
