#include "mechanisms/static_sparse/set_kind.h"
#include "reference/sparse.h"

namespace fovea {
namespace {

struct Steps {
  std::int64_t left, right, dilation;
};
Steps steps_of(const Mechanism& mechanism, std::int64_t layer) {
  return {mechanism.integer("left"), mechanism.integer("right"),
          grown(mechanism.integer("dilation"), mechanism.integer("growth"), layer)};
}

// One class of tokens a dilation apart after the other: a plain window in each.
std::vector<Part> parts(const Mechanism& mechanism, const PartSizes& sizes) {
  const Steps steps = steps_of(mechanism, sizes.layer);
  const std::int64_t reach = std::max(sizes.n_q, sizes.n_k) / steps.dilation;  // more steps than that lead nowhere
  return {{Pattern::window(std::min(steps.left, reach) * steps.dilation, std::min(steps.right, reach) * steps.dilation),
           steps.dilation}};
}

reference::Result define(const reference::Problem& problem, const Mechanism& mechanism) {
  reference::Steps steps{mechanism.integer("left"), mechanism.integer("right"), mechanism.integer("dilation")};
  constexpr std::int64_t kFar = std::int64_t{1} << 40;  // further than any key
  for (std::int64_t l = 0; l < problem.layer && steps.dilation < kFar; ++l)
    steps.dilation *= mechanism.integer("growth");
  return reference::sparse(
      problem, [&](std::int64_t, std::int64_t query, std::int64_t key) { return reads_steps(query, key, steps); });
}

std::int64_t first_needed(const Mechanism& mechanism, const AttentionOptions& options, std::int64_t seen) {
  const Steps steps = steps_of(mechanism, options.layer);
  return window_needs(std::min(steps.left, seen / steps.dilation + 1) * steps.dilation, options, seen);
}

}  // namespace

const MechanismKind& dilated_kind() {
  static const MechanismKind kind = set_kind<parts>({
      .name = "dilated",
      .summary = "a window with gaps: every so-many-th key on both sides, the gaps growing with depth if wanted",
      .paper = "Wang et al. 2020, Transformer on a Diet; Beltagy et al. 2020, Longformer",
      .parameters = {{"left", std::int64_t{64}, 0, 1 << 30, {}, "keys before the query"},
                     {"right", std::int64_t{64}, 0, 1 << 30, {}, "keys after the query; causal calls read none"},
                     {"dilation", std::int64_t{4}, 1, 1 << 30, {}, "tokens from one key to the next"},
                     {"growth", std::int64_t{1}, 1, 1024, {}, "the dilation is so many times larger in each layer"}},
      .first_needed = first_needed,
      .reference = define,
      .picture = "dilated:left=3,right=3,dilation=3",
  });
  return kind;
}

}  // namespace fovea
