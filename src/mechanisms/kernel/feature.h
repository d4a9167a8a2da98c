#pragma once

#include "mechanisms/kind.h"
#include "scan/contract.h"

namespace fovea {

// The feature map named by the parameter "map", for the engine and for the reference.
inline scan::Map map_of(const Mechanism& mechanism) {
  const std::string& name = mechanism.choice("map");
  return name == "elu+1" ? scan::Map::elu_plus_one : name == "elu" ? scan::Map::elu : scan::Map::relu;
}

inline double (*reference_map_of(const Mechanism& mechanism))(double) {
  const std::string& name = mechanism.choice("map");
  return name == "elu+1" ? reference::elu_plus_one : name == "elu" ? reference::elu : reference::relu;
}

}  // namespace fovea
