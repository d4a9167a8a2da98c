#pragma once

#include "ops/features.h"
#include "unit/ops/cases.h"

namespace fovea::testing {

// Directions (groups, r, d) in the wide type of x, the same for every type.
inline Tensor directions_for(const Context& context, const Var& x, const Shape& shape) {
  return random(context, shape, 77, x.dtype() == DType::f64 ? DType::f64 : DType::f32);
}

// All rows of x but the last of each item: padding gets zeros.
inline std::vector<Sequences::Rows> all_but_last(const Var& x) {
  std::vector<Sequences::Rows> rows;
  for (std::int64_t b = 0; b < x.dim(0); ++b) rows.push_back({b, 0, x.dim(1) - 1});
  return rows;
}

inline std::vector<OpCase> feature_cases() {
  std::vector<OpCase> cases;
  const std::vector<Shape> small{{2, 3, 2, 5}}, large{{2, 70, 4, 33}};
  const auto add = [&](const char* name, const FeatureOptions& options, std::int64_t groups) {
    cases.push_back({std::string("features_") + name, one([=](Tape& t, Inputs v) {
                       FeatureOptions o = options;
                       o.rows = all_but_last(v[0]);
                       return features(t, v[0], directions_for(t.context(), v[0], {groups, 7, v[0].dim(3)}), o);
                     }),
                     small, large});
    cases.back().scale = 0.3;
  };
  add("exponential", {.scale = 0.5, .subtract_norm = true, .shift = 0.7}, 1);
  add("of_rows", {.size = 0.4, .add = 0.1, .subtract_norm = true, .stabilizer = Stabilizer::row, .pull_shift = true},
      2);
  // Backward finds the largest feature of a row among rounded ones: with many rows some would tie in bf16.
  cases.back().large = {{2, 9, 2, 33}};
  add("of_sequences",
      {.scale = 0.4,
       .size = 0.4,
       .add = 0.1,
       .subtract_norm = true,
       .stabilizer = Stabilizer::sequence,
       .pull_shift = true},
      1);
  add("relu", {.map = FeatureMap::relu, .scale = 2.0, .add = 1e-3}, 2);
  add("waves", {.map = FeatureMap::waves, .scale = 0.5, .unit = true, .size = 0.3}, 2);
  cases.push_back(
      {"features_weighed",
       one([](Tape& t, Inputs v) {
         return features(
             t, v[0], directions_for(t.context(), v[0], {2, 7, v[0].dim(3)}),
             {.map = FeatureMap::waves, .unit = true, .gain = v[1], .weight = v[2], .rows = all_but_last(v[0])});
       }),
       {{2, 3, 4, 5}, {2, 5}, {2, 3, 4}},
       {{2, 70, 4, 33}, {2, 33}, {2, 70, 4}},
       2});
  cases.push_back({"rotated_features",
                   one([](Tape& t, Inputs v) {
                     const DType wide = v[0].dtype() == DType::f64 ? DType::f64 : DType::f32;
                     return rotated_features(t, v[0], random(t.context(), {v[0].dim(0), v[0].dim(1), 2}, 8, wide));
                   }),
                   {{2, 3, 2, 5}},
                   {{2, 70, 4, 33}}});
  cases.push_back(
      {"log_sigmoid", one([](Tape& t, Inputs v) { return log_sigmoid(t, v[0], 0.25); }), {{3, 5}}, {{300, 127}}});
  cases.back().scale = 3.0;
  return cases;
}

}  // namespace fovea::testing
