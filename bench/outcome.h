#pragma once

#include <string>
#include <vector>

#include "bench/train_step.h"

namespace fovea::bench {

// One line of the benchmark table: what was measured against what it must reach.
struct Outcome {
  enum class Unit : std::uint8_t { share, ratio, bytes };

  std::string work;
  Unit unit = Unit::share;
  double value = 0.0, bar = 0.0;
  double seconds = 0.0, rate = 0.0;  // 0: does not apply

  bool at_least() const { return unit == Unit::share; }  // the others must stay below their bar
  bool met() const { return at_least() ? value >= bar : value <= bar; }
  std::string value_text() const;
  std::string bar_text() const;
};

struct Results {
  std::vector<Outcome> outcomes;
  std::vector<StepTiming> steps;
  double anchor = 0.0;  // sgemm rate, median over all rounds
  int rounds = 0, repeated = 0;
  int threads = 0;
  std::string command;

  std::size_t missed() const;
};

std::string outcome_line(const Outcome& outcome);  // for the terminal
std::string step_line(const StepTiming& step);
std::string markdown(const Results& results);  // docs/bench.md

}  // namespace fovea::bench
