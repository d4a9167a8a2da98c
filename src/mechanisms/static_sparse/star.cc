#include <cmath>

#include "mechanisms/compose.h"
#include "mechanisms/static_sparse/set_kind.h"
#include "reference/sparse.h"

namespace fovea {
namespace {

std::vector<Part> parts(const Mechanism& mechanism, const PartSizes& sizes) {
  Pattern pattern = Pattern::window(1, 1) | first_keys(1) | first_queries(1);
  const std::int64_t last = sizes.n_k - 1;
  if (mechanism.choice("ring") == "closed" && !sizes.causal && last > 0)
    pattern = pattern | Pattern::box({1, 2, last, last + 1}) | Pattern::box({last, last + 1, 1, 2});
  return {{pattern}};
}

// Where the ring is open, keys of zero score and zero value stand for the missing neighbours: the logarithm of how
// many, (b, n_q, heads).
Tensor missing_neighbours(const Call& call) {
  const DType wide = wide_type(call.q.dtype());
  const Tensor lse = Tensor::empty(call.tape.context(), {call.q.dim(0), call.q.dim(1), call.q.dim(2)}, wide);
  lse.fill(-INFINITY);
  for (std::size_t s = 0; s < call.queries.size(); ++s) {
    const Sequences::Rows &q = call.queries[s], &k = call.keys[s];
    const auto row_of = [&](std::int64_t position) { return position - (k.count - q.count); };
    const auto set = [&](std::int64_t position, double count) {
      if (position < 1 || row_of(position) < 0 || row_of(position) >= q.count) return;
      const std::int64_t row = q.begin + row_of(position);
      lse.slice(0, q.batch, q.batch + 1).slice(1, row, row + 1).fill(std::log(count));
    };
    const std::int64_t last = k.count - 1;
    set(1, last == 1 && !call.options.causal ? 2.0 : 1.0);
    if (last > 1 && !call.options.causal) set(last, 1.0);
  }
  return lse;
}

AttentionResult run(const Call& call) {
  if (call.mechanism.choice("ring") != "zero") return run_parts(call, parts);
  AttentionOptions options = call.options;
  options.return_lse = true;
  const AttentionResult kept =
      run_parts({call.tape, call.q, call.k, call.v, call.mechanism, options, call.queries, call.keys}, parts);
  return with_zero_keys(call, kept, missing_neighbours(call));
}

reference::Result define(const reference::Problem& problem, const Mechanism& mechanism) {
  const std::string& ring = mechanism.choice("ring");
  return reference::star(problem, ring == "closed" ? reference::Ring::closed
                                  : ring == "zero" ? reference::Ring::zero
                                                   : reference::Ring::open);
}

}  // namespace

const MechanismKind& star_kind() {
  static const MechanismKind kind = set_kind<parts>({
      .name = "star",
      .summary = "tokens read their neighbours on a ring and the first token, the relay, which reads all",
      .paper = "Guo et al. 2019, Star-Transformer",
      .parameters = {{"ring",
                      std::string("open"),
                      0,
                      0,
                      {"open", "closed", "zero"},
                      "its ends: without a neighbour, joined (the paper), or with a zero key (the published code)"}},
      .run = run,
      .reference = define,
      .picture = "star:ring=closed",
  });
  return kind;
}

}  // namespace fovea
