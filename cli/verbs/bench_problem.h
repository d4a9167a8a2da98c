#pragma once

#include <cstdint>
#include <string>

#include "cli/kit/arguments.h"
#include "measure/attention_case.h"

namespace fovea::cli {

// What of an attention problem can be said on the command line; the verbs of `fovea bench` that time attention share
// it.
struct BenchProblem {
  std::string dtype = "f32";
  std::int64_t batch = 1, heads = 0, dim = 64, window = 0;
  bool causal = false;

  void default_heads(std::int64_t count) { heads = heads == 0 ? count : heads; }

  AttentionProblem problem(const std::string& mechanism, std::int64_t n) const;
  std::string text() const;  // "f32, batch 1, 8 heads, width 64, causal"
};
void add_problem_options(const Arguments& verb, BenchProblem& problem);

}  // namespace fovea::cli
