#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/verbs/bench_report.h"
#include "io/file.h"

// fovea bench attention --all: how every mechanism grows with the length, forward and backward together.
namespace fovea::cli {

inline constexpr std::int64_t kLastQuadratic = 8192;  // beyond, only softmax stands for the quadratic ones
inline constexpr std::int64_t kRateLength = 16384;    // where shares of the sgemm rate are compared

struct GrowthPoint {
  std::int64_t n = 0;
  double seconds = 0.0;  // forward and backward
  double share = 0.0;    // of the sgemm rate, on the mechanism's own operations
  double bytes = 0.0;    // peak beyond the inputs
  double softmax = 0.0;  // seconds of softmax at this length
};

struct Growth {
  std::string mechanism;
  std::vector<GrowthPoint> points;  // by length

  double time_exponent() const;  // of n, least squares on logarithms
  double memory_exponent() const;
  const GrowthPoint* at(std::int64_t n) const;
  // The first measured length from which on it is faster than softmax; none: at no measured length.
  std::optional<std::int64_t> wins_from() const;
};

struct GrowthReport {
  std::string setting, machine, date, command;
  std::vector<Growth> rows;
};

bool has_rate_bar(std::string_view mechanism);  // at kRateLength

GrowthReport growth_of(const BenchReport& report);
std::string growth_text(const GrowthReport& report);

// What is written below `docs`, and read from there again: bench-mechanisms.json.
void write_growth(const GrowthReport& report, const Path& docs);
std::optional<GrowthReport> read_growth(const Path& docs);

// The section "Measured" of a mechanism's page; empty when it was not measured.
std::string measured_section(const GrowthReport& report, std::string_view mechanism);

}  // namespace fovea::cli
