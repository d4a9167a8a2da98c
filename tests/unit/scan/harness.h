#pragma once

#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "core/rng.h"
#include "fovea/context.h"
#include "scan/contract.h"

// A problem with its numbers in double, the engine run on them in any dtype, and the plain definition.
namespace fovea::scan::test {

struct Case {
  std::int64_t batch = 1, rows_q = 0, rows_k = 0;  // sizes of the arrays; pieces may leave rows out
  std::int64_t heads = 2, kv_heads = 2, d_k = 5, d_v = 7;
  std::vector<Piece> pieces;
  bool causal = false, rms_norm = false;
  Map map = Map::identity;
  Decay decay = Decay::none;
  std::vector<double> log_decay;  // Decay::head
  Denominator denominator = Denominator::none;
  double eps = 1e-3;  // of the denominator or the norm
  bool states = false;
  std::int64_t chunk = 0;
  bool save_state = false;  // hand the final state to backward

  Problem problem(DType dtype) const;
  std::string text() const;
};

// One piece of nq queries and nk keys.
Case single(std::int64_t nq, std::int64_t nk);
// All maps, orders, decays, normalisers, with and without states and grouped heads.
std::vector<Case> all_forms(std::int64_t nq, std::int64_t nk);

struct Values {
  std::vector<double> q, k, v, initial;  // (batch, rows, heads, dim), (pieces, kv_heads, d_k, width)
  std::vector<double> log_decay;         // (batch, rows, kv_heads, columns): [-5, 0], and now and then -60 or -1000
  std::vector<double> d_o, d_final;
};
// Normal numbers; rows outside the pieces are NaN.
Values random_values(const Case& setup, std::uint64_t seed, double mean_of_v = 0.0);

struct Results {
  std::vector<double> o, statistic, final, dq, dk, dv, d_initial, d_log_decay;
};
inline constexpr std::vector<double> Results::*kEveryResult[] = {
    &Results::o,  &Results::statistic, &Results::final,     &Results::dq,
    &Results::dk, &Results::dv,        &Results::d_initial, &Results::d_log_decay};
// Forward and backward in T. What the engine leaves alone stays NaN.
template <class T>
Results run_engine(const Context& context, const Case& setup, const Values& values);

// o and final state by the definition, in double; rows outside the pieces are NaN.
Results run_definition(const Case& setup, const Values& values);
// sum d_o o + sum d_final final
double loss(const Case& setup, const Values& values);

// max |a - b| / max |b| over the entries that are not NaN in b; infinity where a is not finite there, or is not NaN
// where b is.
double distance(const std::vector<double>& a, const std::vector<double>& b);

// The largest distance of any result.
double worst(const Results& a, const Results& b);

// Fresh memory is NaN.
Context make_context(int threads = 1);

}  // namespace fovea::scan::test
