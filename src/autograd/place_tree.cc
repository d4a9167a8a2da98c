#include "autograd/place_tree.h"

namespace fovea {

PlaceId PlaceTree::below(PlaceId parent, std::string_view name) {
  PlaceId last = 0;
  for (PlaceId child = entries_[parent].first_child; child != 0; child = entries_[child].next_sibling) {
    if (entries_[child].name == name) return child;
    last = child;
  }
  const auto made = static_cast<PlaceId>(entries_.size());
  entries_.push_back({std::string(name), parent});
  (last == 0 ? entries_[parent].first_child : entries_[last].next_sibling) = made;
  return made;
}

std::string PlaceTree::path(PlaceId place, PlaceId base) const {
  if (place == base || place == 0) return {};
  const std::string above = path(entries_[place].parent, base);
  return above.empty() ? entries_[place].name : above + "." + entries_[place].name;
}

}  // namespace fovea
