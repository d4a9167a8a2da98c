#include "cli/verbs/bench_problem.h"

#include <fmt/format.h>

#include "cli/kit/options.h"

namespace fovea::cli {

AttentionProblem BenchProblem::problem(const std::string& mechanism, std::int64_t n) const {
  AttentionProblem problem;
  problem.mechanism = Mechanism::parse(mechanism);
  problem.batch = batch;
  problem.n = n;
  problem.heads = heads;
  problem.dim = dim;
  problem.causal = causal;
  problem.dtype = parse_dtype(dtype);
  if (window > 0) problem.window = Window{window, causal ? 0 : window};
  return problem;
}

std::string BenchProblem::text() const {
  return fmt::format("{}, batch {}, {} heads, width {}{}{}", dtype, batch, heads, dim, causal ? ", causal" : "",
                     window > 0 ? fmt::format(", window {}", window) : "");
}

void add_problem_options(const Arguments& verb, BenchProblem& problem) {
  const auto size = [&](const char* name, std::int64_t& value, const char* help) {
    return verb.add_option(name, value, help).type_name("N").check(in_range(1, 1 << 24));
  };
  size("--batch", problem.batch, "sequences at once").show_default();
  size("--heads", problem.heads, "heads [8]");
  size("--dim", problem.dim, "width of a head").show_default();
  verb.add_flag("--causal", problem.causal, "a query reads no later key");
  size("--window", problem.window, "keys on each side that a query reads [no limit]");
  verb.add_option("--dtype", problem.dtype, "f32, bf16, f16 or f64").type_name("NAME").show_default();
}

}  // namespace fovea::cli
