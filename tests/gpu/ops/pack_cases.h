#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "unit/ops/feature_cases.h"

namespace fovea::testing {

// The host's cases, whose widths are odd, with rows that a card loads in packs of eight.
inline std::vector<OpCase> in_packs(std::vector<OpCase> cases) {
  constexpr std::int64_t kWidths[] = {17, 33, 65, 66, 67, 127};
  for (OpCase& c : cases) {
    c.name += "_in_packs";
    for (Shape& shape : c.large)
      for (int axis = 0; axis < shape.rank(); ++axis)
        if (const std::int64_t width = shape.dim(axis); std::ranges::find(kWidths, width) != std::end(kWidths))
          shape = shape.with(axis, (width + 7) / 8 * 8);
  }
  return cases;
}

// As many directions as make packs, and rows that take several chunks.
inline std::vector<OpCase> many_directions() {
  std::vector<OpCase> cases;
  const auto add = [&](const char* name, const FeatureOptions& options, const Shape& x) {
    cases.push_back({std::string("features_in_packs_") + name,
                     one([=](Tape& t, Inputs v) {
                       FeatureOptions o = options;
                       o.rows = all_but_last(v[0]);
                       return features(t, v[0], directions_for(t.context(), v[0], {2, 64, v[0].dim(3)}), o);
                     }),
                     {x},
                     {x}});
    cases.back().scale = 0.1;
  };
  const Shape x{2, 70, 4, 64};
  add("exponential", {.scale = 0.5, .subtract_norm = true, .shift = 0.7}, x);
  add("of_sequences", {.subtract_norm = true, .stabilizer = Stabilizer::sequence}, x);
  add("relu", {.map = FeatureMap::relu, .scale = 2.0}, x);
  add("waves", {.map = FeatureMap::waves, .scale = 0.5, .unit = true}, x);  // an angle's rounding grows with the angle
  add("of_many_rows", {.subtract_norm = true, .stabilizer = Stabilizer::row}, {2, 12000, 4, 16});
  return cases;
}

}  // namespace fovea::testing
