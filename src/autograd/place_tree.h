#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "fovea/autograd.h"

namespace fovea {

// The tree of the places a tape and its parts have been at. Entering one again gives the same number.
class PlaceTree {
 public:
  PlaceId below(PlaceId parent, std::string_view name);
  // Names from below `base` down to the place, "layers[1].attention"; empty: it is the base.
  std::string path(PlaceId place, PlaceId base) const;

 private:
  struct Entry {
    std::string name;
    PlaceId parent = 0, first_child = 0, next_sibling = 0;
  };
  std::vector<Entry> entries_{1};  // the first is no place
};

}  // namespace fovea
