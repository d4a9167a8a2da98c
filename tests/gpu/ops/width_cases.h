#pragma once

#include <string>
#include <vector>

#include "unit/ops/cases.h"

namespace fovea::testing {

// Operations over rows, in the widths at which kernels change: rows of a warp and of a block, in packs of eight and
// not, kept in registers and too wide for that.
inline std::vector<OpCase> width_cases() {
  std::vector<OpCase> cases;
  for (const std::int64_t width : {8, 250, 256, 512, 1000, 1024, 2048, 2050, 4096, 4104, 9000}) {
    const Shape rows{37, width}, one_row{width};
    const auto name = [width](const char* what) { return std::string(what) + "_" + std::to_string(width); };
    const auto of_rows = [&](const char* what, const auto& f) {
      cases.push_back({name(what), one(f), {rows}, {rows}, 0, false, 2.0});
    };
    for (const NormKind kind : {NormKind::layer, NormKind::rms_a})
      cases.push_back({name(kind == NormKind::layer ? "add_norm_layer" : "add_norm_rms_a"),
                       [kind](Tape& t, Inputs v) {
                         const AddNorm out = add_norm(t, v[0], v[1], 0.4, {kind, 0.01, v[2], v[3]});
                         return std::vector<Var>{out.sum, out.normed};
                       },
                       {rows, rows, one_row, one_row},
                       {rows, rows, one_row, one_row},
                       2});
    of_rows("softmax", [](Tape& t, Inputs v) { return softmax(t, v[0]); });
    of_rows("log_softmax", [](Tape& t, Inputs v) { return log_softmax(t, v[0]); });
    of_rows("log_sum_exp", [](Tape& t, Inputs v) { return log_sum_exp(t, v[0]); });
    of_rows("cross_entropy", [](Tape& t, Inputs v) {
      const Tensor targets = scrambled(t.context(), {v[0].dim(0)}, static_cast<std::uint32_t>(v[0].dim(1)));
      targets.slice(0, 1, 2).fill(-1.0);
      return cross_entropy(t, v[0], targets, {0.1, -1});
    });
  }
  for (const bool halves : {false, true})
    for (const std::int64_t width : {0, 48})
      cases.push_back({std::string("rotate_") + (halves ? "halves_" : "pairs_") + std::to_string(width),
                       one([halves, width](Tape& t, Inputs v) {
                         const Tensor at = scrambled(t.context(), {v[0].dim(0), v[0].dim(1)}, 500000);
                         return rotate(t, v[0], at, {10000.0, halves, width});
                       }),
                       {{2, 60, 3, 64}},
                       {{2, 60, 3, 64}}});
  return cases;
}

}  // namespace fovea::testing
