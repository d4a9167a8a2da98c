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
};

// Every rank has an even share of every bucket.
std::vector<ParameterBucket> buckets_of(std::span<const Parameter> parameters, const dist::Group& ranks);

}  // namespace fovea
