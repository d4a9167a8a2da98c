#pragma once

#include <cstdint>
#include <numeric>
#include <vector>

namespace fovea {

// How ranks that share weights cut one: along `axis` it is `runs` one after another (q, k and v of all heads, say), and
// each rank has its part of every run. Without runs each has all of it.
struct WeightCut {
  int axis = 0;
  std::vector<std::int64_t> runs = {};

  bool cuts() const { return !runs.empty(); }
  std::int64_t size() const { return std::accumulate(runs.begin(), runs.end(), std::int64_t{0}); }  // of the axis
};

}  // namespace fovea
