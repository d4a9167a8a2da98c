#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/isa.h"
#include "measure/attention_case.h"

namespace fovea::bench {

enum class Pass : std::uint8_t { forward, backward, both };

// A rate that must reach a share of the sgemm rate of the same round. Rows of one group alternate in the same rounds.
struct RateRow {
  std::string group, work;
  Pass pass = Pass::forward;
  double bar = 0.0;
  AttentionProblem problem = {};
  std::optional<Isa> isa = {};  // forced for this row; default: the best one
};
std::vector<RateRow> rate_rows();

// Time at n 65536 over time at n 16384, which a linear mechanism keeps near 4.
struct GrowthRow {
  std::string work;
  Pass pass = Pass::forward;
  AttentionProblem problem = {};  // its n is the short one
};
inline constexpr double kGrowthBar = 4.4;
inline constexpr std::int64_t kShort = 16384, kLong = 65536;
std::vector<GrowthRow> growth_rows();

// Time of a packed batch of sequences of many lengths over that of as many rows in sequences of one length, and over
// that of a call for each sequence.
struct PackedRow {
  std::string work;
  AttentionProblem packed = {}, even = {};
};
inline constexpr double kPackedBar = 1.5, kAloneBar = 1.1;
std::vector<PackedRow> packed_rows();

// Softmax forward and backward at n 65536 with one head must not hold anything of size n^2, or n times much.
AttentionProblem memory_problem();
inline constexpr double kMemoryBar = 200e6;  // bytes beyond the inputs

// Share of a training step that attention and matrix products must have.
inline constexpr double kStepBar = 0.70;

}  // namespace fovea::bench
