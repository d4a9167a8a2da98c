#pragma once

#include "fovea/dtype.h"

namespace fovea {

// The dtype of sums, statistics and weights that belong to values of a floating dtype: Wide<T> at run time.
inline DType wide_type(DType dtype) { return dtype == DType::f64 ? DType::f64 : DType::f32; }

// Calls f.template operator()<R>() with float, or with double for f64.
template <class F>
decltype(auto) visit_wide(DType dtype, F&& f) {
  if (dtype == DType::f64) return f.template operator()<double>();
  return f.template operator()<float>();
}

// Calls f.template operator()<T, U>() with the type of a floating dtype and that of `other`: the same, or the wide one.
template <class F>
void visit_float_or_wide(DType dtype, DType other, const F& f) {
  visit_float(dtype, [&]<class T>() {
    if (other == dtype)  // NOLINT(bugprone-branch-clone): the types differ
      f.template operator()<T, T>();
    else
      f.template operator()<T, Wide<T>>();
  });
}

}  // namespace fovea
