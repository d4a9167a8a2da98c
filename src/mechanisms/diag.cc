#include "mechanisms/layout.h"
#include "mechanisms/tiled.h"

namespace fovea {
namespace {

// T1 of the paper normalises its rectified blocks over all heads; T2's softmax needs no norm.
bool normalized(const Mechanism& mechanism) {
  const std::string& norm = mechanism.choice("norm");
  return norm == "rms" || (norm == "auto" && mechanism.choice("weights") == "rela");
}

AttentionResult run(const Call& call) {
  const bool rela = call.mechanism.choice("weights") == "rela";
  if (rela && call.options.return_lse)
    fail(ErrorCode::unsupported, "attention \"diag\" with rectified weights has no log-sum-exp", "diag.weights",
         "weights=softmax");
  AttentionResult result = run_tiled(call, {rela ? tile::Weight::rela : tile::Weight::softmax,
                                            Pattern::block_diagonal(call.mechanism.integer("block"))});
  if (normalized(call.mechanism))
    result.output = normalize_heads(call.tape, result.output, NormKind::rms, call.mechanism.number("eps"));
  return result;
}

reference::Result define(const reference::Problem& given, const Mechanism& mechanism) {
  reference::Problem problem = given;
  problem.pattern = given.pattern & Pattern::block_diagonal(mechanism.integer("block"));
  const bool rela = mechanism.choice("weights") == "rela";
  reference::Result result =
      reference::pairwise(problem, rela ? reference::Weights::rela : reference::Weights::softmax);
  if (normalized(mechanism))
    reference::normalize_rows(problem, result, reference::RowNorm::rms, mechanism.number("eps"));
  return result;
}

double flops(const Sizes& s, const Mechanism& mechanism) {
  const double block = std::min(static_cast<double>(mechanism.integer("block")), s.n);
  return s.n * block * s.heads * 2.0 * (s.d_k + s.d_v) * (s.causal ? 0.5 : 1.0);
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
           {"eps", 1e-6, 1e-12, 1.0, {}, "added to the mean square inside the root"}},
      .features = kPairwise,
      .subquadratic = true,
      .memory = Memory::cache,
      .run = run,
      .reference = define,
      .flops = flops,
      .backward_factor = 2.5,
      .first_needed = open_block,
  };
  return kind;
}

}  // namespace fovea
