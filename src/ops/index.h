#pragma once

#include <string>

#include "core/visit_device.h"
#include "ops/index_kernels.h"

// What operations say about an index that is wrong.
namespace fovea {

struct WrongEntry {
  std::int64_t value;
  std::string where;  // "index[3]"
};

inline WrongEntry wrong_entry(const Tensor& index, std::int64_t at, const std::string& name) {
  const auto value = static_cast<std::int64_t>(index.reshape({index.numel()}).select(0, at).item());
  return {value, name + "[" + std::to_string(at) + "]"};
}

// Place of the first entry that is not in [least, limit), or -1.
inline std::int64_t first_outside(const Context& context, const Tensor& index, std::int64_t least, std::int64_t limit) {
  const kernels::IndexRange io{index, least, limit};
  return visit_device(context, io, [&]<Device D>() { return kernels::first_outside<D>(context, io); });
}

// Refuses an index (b, m, heads) of rows below `rows` that names one of them twice.
inline void check_once(const Context& context, const Tensor& index, std::int64_t rows) {
  const kernels::IndexOnce io{index, rows};
  const std::int64_t at =
      visit_device(context, io, [&]<Device D>() { return kernels::first_repeated<D>(context, io); });
  if (at < 0) return;
  const auto [row, where] = wrong_entry(index, at, "index");
  fail(ErrorCode::bad_input, "row " + std::to_string(row) + " is put twice", where);
}

}  // namespace fovea
