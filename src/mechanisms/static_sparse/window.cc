#include "mechanisms/static_sparse/set_kind.h"
#include "reference/sparse.h"

namespace fovea {
namespace {

std::vector<Part> parts(const Mechanism& mechanism, const PartSizes&) {
  return {{Pattern::window(mechanism.integer("left"), mechanism.integer("right"))}};
}

reference::Result define(const reference::Problem& problem, const Mechanism& mechanism) {
  const reference::Steps steps{mechanism.integer("left"), mechanism.integer("right"), 1};
  return reference::sparse(
      problem, [&](std::int64_t, std::int64_t query, std::int64_t key) { return reads_steps(query, key, steps); });
}

std::int64_t first_needed(const Mechanism& mechanism, const AttentionOptions& options, std::int64_t seen) {
  return window_needs(mechanism.integer("left"), options, seen);
}

}  // namespace

const MechanismKind& window_kind() {
  static const MechanismKind kind = set_kind<parts>({
      .name = "window",
      .summary = "softmax over the nearest keys on both sides",
      .paper = "Parmar et al. 2018, Image Transformer; Beltagy et al. 2020, Longformer",
      .parameters = {{"left", std::int64_t{128}, 0, 1 << 30, {}, "keys before the query"},
                     {"right", std::int64_t{128}, 0, 1 << 30, {}, "keys after the query; causal calls read none"}},
      .first_needed = first_needed,
      .reference = define,
      .picture = "window:left=4,right=4",
  });
  return kind;
}

}  // namespace fovea
