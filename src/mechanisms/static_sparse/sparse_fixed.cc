#include "mechanisms/static_sparse/set_kind.h"
#include "reference/sparse.h"

namespace fovea {
namespace {

std::int64_t summary_of(const Mechanism& mechanism) {
  return std::min(mechanism.integer("summary"), mechanism.integer("block"));
}

std::vector<Part> parts(const Mechanism& mechanism, const PartSizes&) {
  const std::int64_t block = mechanism.integer("block");
  Pattern pattern = Pattern::block_diagonal(block) | Pattern::comb(block, block - summary_of(mechanism), block);
  if (mechanism.choice("columns") == "lra") pattern = pattern | Pattern::comb(block, 0, 1);
  return {{pattern}};
}

reference::Result define(const reference::Problem& problem, const Mechanism& mechanism) {
  const std::int64_t block = mechanism.integer("block"), summary = mechanism.integer("summary");
  const bool first = mechanism.choice("columns") == "lra";
  return reference::sparse(problem, [=](std::int64_t, std::int64_t query, std::int64_t key) {
    return reference::reads_fixed(query, key, block, summary) || (first && key % block == 0);
  });
}

}  // namespace

const MechanismKind& sparse_fixed_kind() {
  static const MechanismKind kind = set_kind<parts>({
      .name = "sparse-fixed",
      .summary = "the query's own block and the last columns of every block, in one softmax",
      .paper = "Child et al. 2019, Generating Long Sequences with Sparse Transformers",
      .parameters =
          {{"block", std::int64_t{128}, 1, 1 << 30, {}, "tokens per block"},
           {"summary", std::int64_t{32}, 1, 1 << 30, {}, "last columns of a block that every query reads; at most all"},
           {"columns",
            std::string("last"),
            0,
            0,
            {"last", "lra"},
            "lra: every query also reads the first column of a block, as the Long Range Arena does"}},
      .subquadratic = false,  // at a given size; O(n sqrt n) where it grows with the length
      .reference = define,
      .picture = "sparse-fixed:block=8,summary=2",
  });
  return kind;
}

}  // namespace fovea
