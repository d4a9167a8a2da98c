#include <cmath>

#include "mechanisms/static_sparse/set_kind.h"
#include "reference/sparse.h"

namespace fovea {
namespace {

// Keys on one side of the query; -1: all.
std::int64_t reach(const Mechanism& mechanism, std::int64_t layer) {
  const std::int64_t window = mechanism.integer("window");
  return window == 0 ? -1 : grown(window, mechanism.integer("factor"), layer) - 1;
}

std::vector<Part> parts(const Mechanism& mechanism, const PartSizes& sizes) {
  const std::int64_t side = reach(mechanism, sizes.layer);
  return {{Pattern::window(side, side)}};
}

reference::Result define(const reference::Problem& problem, const Mechanism& mechanism) {
  double window = static_cast<double>(mechanism.integer("window"));
  for (std::int64_t l = 0; l < problem.layer; ++l) window *= static_cast<double>(mechanism.integer("factor"));
  return reference::sparse(problem, [&](std::int64_t, std::int64_t query, std::int64_t key) {
    return window == 0.0 || std::abs(static_cast<double>(query - key)) < window;
  });
}

std::int64_t first_needed(const Mechanism& mechanism, const AttentionOptions& options, std::int64_t seen) {
  const std::int64_t side = reach(mechanism, options.layer);
  return window_needs(side < 0 ? seen : side, options, seen);
}

}  // namespace

const MechanismKind& cascade_kind() {
  static const MechanismKind kind = set_kind<parts>({
      .name = "cascade",
      .summary = "a window that widens from layer to layer",
      .paper = "Wang et al. 2020, Transformer on a Diet",
      .parameters = {{"window",
                      std::int64_t{4},
                      0,
                      1 << 30,
                      {},
                      "keys of the first layer, the query's own included, on each side; 0: all"},
                     {"factor", std::int64_t{2}, 1, 1024, {}, "the window is so many times wider in each layer"}},
      .first_needed = first_needed,
      .reference = define,
      .picture = "cascade",
  });
  return kind;
}

}  // namespace fovea
