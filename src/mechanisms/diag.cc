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

Flops flops(const Sizes& s, const Mechanism& mechanism) {
  const double block = std::min(static_cast<double>(mechanism.integer("block")), s.n);
  return pairwise_flops(s.n * block * (s.causal ? 0.5 : 1.0), s);
}

bool lacks(const Mechanism& mechanism, Feature feature) {
  return feature == Feature::lse && mechanism.choice("weights") == "rela";
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
      .lacks = lacks,
      .subquadratic = true,
      .memory = Memory::cache,
      .run = run,
      .reference = define,
      .flops = flops,
      .first_needed = open_block,
      .picture = "diag:block=8",
  };
  return kind;
}

}  // namespace fovea
