#include "mechanisms/static_sparse/set_kind.h"
#include "reference/sparse.h"

namespace fovea {
namespace {

std::int64_t local_keys(const Mechanism& mechanism) {
  return mechanism.integer("stride") + (mechanism.choice("local") == "paper" ? 1 : 0);
}

// The near keys, and of the tokens a stride apart those that are not near.
std::vector<Part> parts(const Mechanism& mechanism, const PartSizes&) {
  const std::int64_t side = local_keys(mechanism) - 1;
  const Pattern near = Pattern::window(side, side);
  return {{near}, {~near, mechanism.integer("stride")}};
}

reference::Result define(const reference::Problem& problem, const Mechanism& mechanism) {
  const std::int64_t stride = mechanism.integer("stride");
  const std::int64_t local = mechanism.choice("local") == "paper" ? stride + 1 : stride;
  return reference::sparse(problem, [=](std::int64_t, std::int64_t query, std::int64_t key) {
    return reference::reads_strided(query, key, stride, local);
  });
}

}  // namespace

const MechanismKind& sparse_strided_kind() {
  static const MechanismKind kind = set_kind<parts>({
      .name = "sparse-strided",
      .summary = "the nearest keys and every key a multiple of the stride away, in one softmax",
      .paper = "Child et al. 2019, Generating Long Sequences with Sparse Transformers",
      .parameters = {{"stride", std::int64_t{128}, 1, 1 << 30, {}, "about the square root of the length"},
                     {"local",
                      std::string("code"),
                      0,
                      0,
                      {"code", "paper"},
                      "near keys on one side, the query's own included: the stride, or one more"}},
      .subquadratic = false,  // at a given size; O(n sqrt n) where it grows with the length
      .reference = define,
      .picture = "sparse-strided:stride=7",
  });
  return kind;
}

}  // namespace fovea
