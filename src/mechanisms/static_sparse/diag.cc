#include <cmath>

#include "mechanisms/compose.h"
#include "mechanisms/tiled.h"

namespace fovea {
namespace {

// T1 of the paper normalises its rectified blocks over all heads; T2's softmax needs no norm.
bool normalized(const Mechanism& mechanism) {
  const std::string& norm = mechanism.choice("norm");
  return norm == "rms" || (norm == "auto" && mechanism.choice("weights") == "rela");
}

bool is_rela(const Mechanism& mechanism) { return mechanism.choice("weights") == "rela"; }

// Whether the last block is filled up with zero keys that weigh; a causal query reads none of them.
bool is_filled(const Mechanism& mechanism, bool causal) {
  return mechanism.choice("tail") == "zeros" && !is_rela(mechanism) && !causal;
}

// The zero keys that a query at `position` reads beside n.
std::int64_t zero_keys(std::int64_t position, std::int64_t n, std::int64_t block) {
  const std::int64_t last = n / block * block;
  return position >= last && n > last ? block - (n - last) : 0;
}

// Their logarithm for every row, (b, n_q, heads).
Tensor filling(const Call& call) {
  const Tensor lse =
      Tensor::empty(call.tape.context(), {call.q.dim(0), call.q.dim(1), call.q.dim(2)}, wide_type(call.q.dtype()));
  lse.fill(-INFINITY);
  for (std::size_t s = 0; s < call.queries.size(); ++s) {
    const Sequences::Rows &q = call.queries[s], &k = call.keys[s];
    for (std::int64_t i = 0; i < q.count; ++i) {
      const auto count =
          static_cast<double>(zero_keys(i + k.count - q.count, k.count, call.mechanism.integer("block")));
      lse.slice(0, q.batch, q.batch + 1).slice(1, q.begin + i, q.begin + i + 1).fill(std::log(count));
    }
  }
  return lse;
}

AttentionResult attend(const Call& call) {
  const Tiled tiled{.weight = is_rela(call.mechanism) ? tile::Weight::rela : tile::Weight::softmax,
                    .pattern = Pattern::block_diagonal(call.mechanism.integer("block")),
                    .wide = normalized(call.mechanism)};
  if (!is_filled(call.mechanism, call.options.causal)) return run_tiled(call, tiled);
  AttentionOptions options = call.options;
  options.return_lse = true;
  const AttentionResult kept =
      run_tiled({call.tape, call.q, call.k, call.v, call.mechanism, options, call.queries, call.keys}, tiled);
  return with_zero_keys(call, kept, filling(call));
}

AttentionResult run(const Call& call) {
  AttentionResult result = attend(call);
  if (!normalized(call.mechanism)) return result;
  const Var y = normalize_heads(call.tape, result.output, NormKind::rms, call.mechanism.number("eps"));
  result.output = cast(call.tape, y, call.q.dtype());
  return result;
}

// Each zero key adds e^0 to the sum of a row's exponentials, and nothing to its output.
void fill_tail(const reference::Problem& p, std::int64_t block, reference::Result& result) {
  for (std::size_t row = 0; row < result.lse.size(); ++row) {
    const auto i = static_cast<std::int64_t>(row) / p.heads;
    const std::int64_t missing = reference::floor_div(p.position(i), block) == (p.n_k - 1) / block ? -p.n_k % block : 0;
    const double sum = std::exp(result.lse[row]),
                 all = sum + static_cast<double>(missing < 0 ? missing + block : missing);
    result.lse[row] = std::log(all);
    for (std::int64_t c = 0; c < p.d_v && all > 0.0; ++c)
      result.o[row * static_cast<std::size_t>(p.d_v) + static_cast<std::size_t>(c)] *= sum / all;
  }
}

reference::Result define(const reference::Problem& given, const Mechanism& mechanism) {
  reference::Problem problem = given;
  problem.pattern = given.pattern & Pattern::predicate("diag", [block = mechanism.integer("block")](std::int64_t query,
                                                                                                    std::int64_t key) {
                      return reference::floor_div(query, block) == key / block;
                    });
  reference::Result result =
      reference::pairwise(problem, is_rela(mechanism) ? reference::Weights::rela : reference::Weights::softmax);
  if (is_filled(mechanism, given.causal)) fill_tail(problem, mechanism.integer("block"), result);
  if (normalized(mechanism))
    reference::normalize_rows(problem, result, reference::RowNorm::rms, mechanism.number("eps"));
  return result;
}

Flops flops(const Sizes& s, const Mechanism& mechanism) {
  const double block = std::min(static_cast<double>(mechanism.integer("block")), s.n);
  return pairwise_flops(s.n * block * (s.causal ? 0.5 : 1.0), s);
}

bool lacks(const Mechanism& mechanism, Feature feature) {
  if (feature == Feature::lse) return is_rela(mechanism);
  // Zero keys have no place in a bias or a pattern of pairs.
  return mechanism.choice("tail") == "zeros" && (feature == Feature::bias || feature == Feature::window ||
                                                 feature == Feature::pattern || feature == Feature::alibi);
}

std::int64_t open_block(const Mechanism& mechanism, const AttentionOptions&, std::int64_t seen) {
  return seen - seen % mechanism.integer("block");
}

}  // namespace

const MechanismKind& diag_kind() {
  static const MechanismKind kind{
      .name = "diag",
      .family = "static sparse",
      .summary = "attention inside non-overlapping blocks (DiagAttention of TransNormer)",
      .paper = "Qin et al. 2022, The Devil in Linear Transformer",
      .parameters =
          {{"block", std::int64_t{64}, 1, 65536, {}, "tokens per block"},
           {"weights", std::string("softmax"), 0, 0, {"softmax", "rela"}, "T2 uses softmax, T1 rectified scores"},
           {"norm",
            std::string("auto"),
            0,
            0,
            {"auto", "rms", "none"},
            "norm of the output over all heads; auto: rms for rela, none for softmax"},
           {"eps", 1e-6, 1e-12, 1.0, {}, "added to the mean square inside the root"},
           {"tail",
            std::string("short"),
            0,
            0,
            {"short", "zeros"},
            "the last block: shorter, or filled up with zero keys that take weight, as in the published code"}},
      .features = kPairwise,
      .lacks = lacks,
      .subquadratic = true,
      .step = cached_step(open_block),
      .run = run,
      .reference = define,
      .flops = flops,
      .picture = "diag:block=8",
  };
  return kind;
}

}  // namespace fovea
