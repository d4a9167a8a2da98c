#pragma once

#include <string>
#include <vector>

#include "unit/ops/cases.h"

namespace fovea::testing {

// Sums of the columns of gradients, beside an activation and without: few packs to a row, as many as a block takes,
// more.
inline void add_column_sums(std::vector<OpCase>& cases) {
  for (const std::int64_t width : {1, 8, 31, 64, 100, 192, 256, 264, 1024})
    for (const Activation activation : {Activation::identity, Activation::gelu})
      cases.push_back({std::string(activation == Activation::gelu ? "linear_gelu_" : "linear_") + std::to_string(width),
                       one([activation](Tape& t, Inputs v) { return linear(t, v[0], v[1], v[2], activation); }),
                       {{3000, 24}, {24, width}, {width}},
                       {{3000, 24}, {24, width}, {width}},
                       2,
                       true,
                       0.5});
  constexpr std::pair<std::int64_t, std::int64_t> kWeights[] = {{64, 64},   {64, 192},  {64, 256}, {128, 64},
                                                                {128, 128}, {192, 128}, {64, 512}};
  for (const auto& [in, out] : kWeights)
    for (const std::int64_t rows : {4096, 5001}) {
      const std::string name = std::to_string(rows) + "_" + std::to_string(in) + "_" + std::to_string(out);
      const std::vector<Shape> shapes{{rows, in}, {in, out}, {out}};
      // The weight is read twice, so that one gradient is added to the other.
      const auto twice = [](Tape& t, Inputs v) {
        return add(t, linear(t, v[0], v[1], v[2]), linear(t, scale(t, v[0], -0.25), v[1], v[2], Activation::gelu));
      };
      cases.push_back({"linear_of_rows_" + name, one(twice), shapes, shapes, 2, true, 0.5});
    }
  for (const std::int64_t rows : {1, 7, 140000})
    cases.push_back({"add_row_to_" + std::to_string(rows),
                     one([](Tape& t, Inputs v) { return add(t, v[0], v[1]); }),
                     {{rows, 64}, {64}},
                     {{rows, 64}, {64}},
                     1});
  for (const bool runs : {false, true})
    for (const std::int64_t words : {20, 200, 1000}) {
      const std::vector<Shape> shapes{{7, 700, 64}, {words, 64}, {700, 64}};
      cases.push_back({(runs ? "embedding_sum_of_runs_" : "embedding_sum_") + std::to_string(words),
                       one([runs](Tape& t, Inputs v) { return sum_of_embeddings(t, v, runs); }), shapes, shapes, 2});
    }
  for (const std::int64_t width : {8, 64})
    cases.push_back({"mean_pool_" + std::to_string(width),
                     one([](Tape& t, Inputs v) {
                       return mean_pool(t, v[0], {.lengths = {700, 0, 333}});
                     }),
                     {{3, 700, width}},
                     {{3, 700, width}}});
}

// Operations over rows, in the widths at which kernels change: rows of some lanes, of a warp and of a block, in packs
// of eight and not, kept in registers and too wide for that.
inline std::vector<OpCase> width_cases() {
  std::vector<OpCase> cases;
  add_column_sums(cases);
  for (const std::int64_t width :
       {8, 31, 32, 33, 64, 96, 100, 128, 250, 256, 512, 1000, 1024, 2048, 2050, 4096, 4104, 5000, 9000}) {
    const Shape rows{width <= 128 ? 1999 : 37, width}, one_row{width};
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
