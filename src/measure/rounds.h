#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "fovea/context.h"

// Timing on a machine that does other things too. Cases alternate inside rounds; every round also runs oneDNN's sgemm
// of 2048^3, before and after the cases, and a round in which that was slow is measured again. What is reported are
// medians, and rates as a share of the sgemm rate of the same round: those survive a change of clock or load.
namespace fovea {

struct TimedCase {
  std::string name;
  double flops = 0.0;           // of one run; 0: no rate is worked out
  std::function<double()> run;  // gives the seconds that count
};

struct RoundOptions {
  int rounds = 5;
  double slow = 0.9;               // a round whose sgemm is below this share of the best one is measured again
  int extra_rounds = 10;           // at most this many such repetitions
  std::function<double()> anchor;  // the rate others are compared with; default: oneDNN's sgemm of 2048^3
  // Told after every run of a case: the case's number and how many runs of cases are done and expected.
  std::function<void(std::size_t index, std::size_t done, std::size_t expected)> progress;
};

struct Timing {
  std::string name;
  double seconds = 0.0;  // median over rounds, and half the distance between the quartiles
  double spread = 0.0;
  double rate = 0.0;   // flops per second
  double share = 0.0;  // of the sgemm rate of the same round; 1 is the sgemm itself
};

struct RoundReport {
  std::vector<Timing> cases;
  double anchor = 0.0;  // sgemm rate in flops per second, median over rounds
  int rounds = 0;
  int repeated = 0;  // rounds thrown away because the sgemm was slow
};

RoundReport measure_rounds(const Context& context, std::span<const TimedCase> cases, const RoundOptions& options = {});

double median(std::vector<double> values);

}  // namespace fovea
