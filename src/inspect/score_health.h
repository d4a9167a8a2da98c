#pragma once

#include <span>

#include "inspect/call.h"
#include "inspect/health_report.h"

namespace fovea::inspection {

// What holds for the gradients of a mechanism, with s the scores of a row, p their shares and z their sum, c1 and c2
// the largest lengths of a row of dL/do and of v, c3 the smallest |s|, d the channels that the norm sees. In brackets
// the equations of the TransNormer paper; those of |dL/ds| are sharper than its own: (59) fails for two or three keys,
// (15) is 3 d / 2 times as large as it has to be.
enum class ScoreTheory : std::uint8_t {
  none,
  softmax,      // (9) |dp/ds| <= 1/4; |dL/ds| <= c1 c2 / 2
  denominator,  // (11) |dp/ds| <= 1 / (4 c3); |dL/ds| <= 2 c1 c2 / z, which grows without a bound as z nears 0
  norm,         // |dL/ds| <= c1 c2 / sqrt(eps); (15): 3 d / 2 times that
};
std::string_view name_of(ScoreTheory theory);

// d_output: gradient of the loss with respect to the output of the call, (n_q, heads, d_v), one row after the other.
struct ScoreQuestion {
  const SequenceCall& call;
  ScoreTheory theory = ScoreTheory::none;
  double norm_eps = 0.0;
  std::span<const float> d_output = {};
};
ScoreHealth score_health(Context& host, const ScoreQuestion& question);

}  // namespace fovea::inspection
