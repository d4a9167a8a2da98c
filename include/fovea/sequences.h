#pragma once

#include <cstdint>
#include <vector>

#include "fovea/export.h"

namespace fovea {

// How the rows of a (batch, n, ...) tensor divide into sequences. Empty: every batch item is one sequence of n rows.
struct FOVEA_EXPORT Sequences {
  std::vector<std::int32_t> lengths = {};     // padded: item b has lengths[b] real rows, the rest is padding
  std::vector<std::int32_t> cu_seqlens = {};  // packed: batch 1; sequence s is rows [cu_seqlens[s], cu_seqlens[s + 1])

  bool empty() const { return lengths.empty() && cu_seqlens.empty(); }

  struct Rows {
    std::int64_t batch, begin, count;
  };
  // The sequences as row ranges, checked against the tensor: `where` names the field in errors.
  std::vector<Rows> rows(std::int64_t batch, std::int64_t n, const char* where) const;
};

}  // namespace fovea
