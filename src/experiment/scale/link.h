#pragma once

#include <string>

#include "dist/group.h"

namespace fovea {

// What lies between two ranks: a message of n bytes takes latency + n / bandwidth seconds.
struct RankLink {
  double bytes_per_second = 10e9, latency = 10e-6;

  double seconds(double messages, double bytes) const { return messages * latency + bytes / bytes_per_second; }
  // Each of `ranks` ends up with the sum of all: two exchanges with every other, (P - 1) / P of the bytes each.
  double all_reduce_seconds(double ranks, double bytes) const;
  std::string text() const;  // "10 GB/s, 10 us"

  // "25GB/s,5us". Refuses what is none.
  static RankLink parse(const std::string& text);
  // Between the ranks of a group, by all-reduces; all of them call it.
  static RankLink measure(const dist::Group& ranks);
};

}  // namespace fovea
