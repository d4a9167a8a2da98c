#pragma once

#include <atomic>
#include <chrono>

#include "fuzz/judge.h"

namespace fovea::fuzz {

using Clock = std::chrono::steady_clock;
inline constexpr int kMostJobs = 256, kMostMechanisms = 128;

// What a worker is at.
struct Slot {
  std::atomic<std::uint64_t> index{0};
  std::atomic<double> since{0.0};
  std::atomic<bool> done{false};
};

// The largest number that came, and the case it came from.
struct Worst {
  std::atomic<double> value{0.0};
  std::atomic<std::uint64_t> index{0};

  void add(double x, std::uint64_t i);
};

struct Tally {
  std::atomic<std::uint64_t> cases{0}, refused{0}, blunt{0}, failed{0};
  Worst forward[4], backward[4];  // by precision, of cases that did not fail
};

// Counts of a run in memory that all processes share.
struct Board {
  std::atomic<std::uint64_t> next{0}, done{0};
  Slot slots[kMostJobs];
  Tally mechanisms[kMostMechanisms];  // in the order of the list

  void count(const Spec& spec, const Verdict& verdict, std::uint64_t index);
};
Board* new_board();
void print_table(const Board& board, double seconds, const Draw& draw);

}  // namespace fovea::fuzz
