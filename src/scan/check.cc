#include "scan/check.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "fovea/error.h"
#include "scan/feature_source.h"

namespace fovea::scan {
namespace {

constexpr const char* kWhere = "scan";

void check_sizes(const Problem& problem) {
  if (problem.heads <= 0 || problem.kv_heads <= 0 || problem.heads % problem.kv_heads != 0)
    fail(ErrorCode::shape,
         std::to_string(problem.heads) + " query heads cannot share " + std::to_string(problem.kv_heads) + " kv heads",
         kWhere, "a number of query heads that is a multiple of the number of kv heads");
  constexpr std::int64_t kMost = 1 << 20;  // keeps the size of a state in range
  if (problem.d_k <= 0 || problem.d_v <= 0 || problem.d_k > kMost || problem.d_v > kMost)
    fail(ErrorCode::shape,
         "head sizes must be positive, got " + std::to_string(problem.d_k) + " and " + std::to_string(problem.d_v),
         kWhere);
  if (problem.chunk < 0) fail(ErrorCode::usage, "chunk must not be negative", kWhere);
  for (const Piece& piece : problem.pieces)
    if (piece.nq < 0 || piece.nk < 0 || piece.q0 < 0 || piece.k0 < 0 || piece.batch < 0)
      fail(ErrorCode::shape, "a piece has a negative row or length", kWhere);
}

void check_options(const Problem& problem) {
  if (!is_float(problem.dtype))
    fail(ErrorCode::unsupported, "linear attention of dtype " + std::string(name_of(problem.dtype)), kWhere,
         "f32, bf16, f16 or f64");
  if (problem.rms_norm && problem.denominator != Denominator::none)
    fail(ErrorCode::unsupported, "a norm over all heads together with a denominator", kWhere, "one of the two");
  if ((problem.decay == Decay::head) != (problem.log_decay != nullptr))
    fail(ErrorCode::usage, "a decay per head and the list of its logs go together", kWhere);
  if (problem.decay == Decay::none) return;
  if (!problem.causal) fail(ErrorCode::unsupported, "decay without causal order", kWhere, "causal, or no decay");
  for (std::int64_t g = 0; problem.decay == Decay::head && g < problem.kv_heads; ++g)
    if (!(problem.log_decay[g] <= 0) || std::isinf(problem.log_decay[g]))
      fail(ErrorCode::usage,
           "the log of a decay must be finite and at most 0, got " + std::to_string(problem.log_decay[g]),
           "log_decay[" + std::to_string(g) + "]");
}

void check(const Problem& problem, const In& log_decay) {
  check_sizes(problem);
  check_options(problem);
  const bool has_keys =
      std::any_of(problem.pieces.begin(), problem.pieces.end(), [](const Piece& p) { return p.nk > 0; });
  if (has_keys && decay_columns(problem) != 0 && log_decay.data == nullptr)
    fail(ErrorCode::usage, "a decay per step needs the array of its logs", kWhere);
}

void check_sources(const Problem& problem, const FeatureSource* q, const FeatureSource* k) {
  if ((q == nullptr) != (k == nullptr)) fail(ErrorCode::usage, "only one of q and k has a source of features", kWhere);
  const bool fits = !problem.causal && problem.dtype == DType::f32 && problem.map == Map::identity &&
                    problem.chunk <= static_cast<std::int64_t>(FeatureSource::kMostRows);
  if (q != nullptr && !fits)
    fail(ErrorCode::unsupported,
         "a source of features in causal order, of another dtype, below a map or in long chunks", kWhere,
         "f32, no causal order, the identity, chunks of at most 32 rows");
}

}  // namespace

void check(const Problem& problem, const Forward& io) {
  check(problem, io.log_decay);
  check_sources(problem, io.q_source, io.k_source);
}

void check(const Problem& problem, const Backward& io) {
  check(problem, io.log_decay);
  check_sources(problem, io.q_source, io.k_source);
  const bool has_queries =
      std::any_of(problem.pieces.begin(), problem.pieces.end(), [](const Piece& p) { return p.nq > 0; });
  if (has_queries && statistic_columns(problem) != 0 && (io.statistic.data == nullptr || io.o.data == nullptr))
    fail(ErrorCode::usage, "backward needs the output and the row statistic of forward", kWhere);
}

}  // namespace fovea::scan
