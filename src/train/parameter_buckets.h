#pragma once

#include <span>
#include <vector>

#include "dist/group.h"
#include "fovea/model.h"

namespace fovea {

// Parameters of one type that travel together, [first, end) of a list, and how many of their numbers, one parameter
// after another, are in the share of each rank.
struct ParameterBucket {
  std::size_t first = 0, end = 0;
  std::int64_t size = 0;
  std::vector<std::int64_t> rows;
  std::int64_t layer = -1;  // whose weights ranks divide, all of them
};

// Every rank has an even share of every bucket. A bucket for each layer, where they are to be told apart.
std::vector<ParameterBucket> buckets_of(std::span<const Parameter> parameters, const dist::Group& ranks,
                                        bool by_layer = false);

}  // namespace fovea
