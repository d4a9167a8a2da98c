#include <gtest/gtest.h>

#include "attention_case.h"

namespace fovea::tile::testing {
namespace {

Arrays run(Options options, int threads) {
  const Context context({.threads = threads, .memory = {.poison = true}});
  AttentionCase c(std::move(options));
  c.run_forward(context);
  c.run_backward(context);
  return c.arrays();
}

std::vector<double> sum(std::vector<double> a, const std::vector<double>& b) {
  for (std::size_t i = 0; i < a.size(); ++i) a[i] += b[i];
  return a;
}

// A small tile may need more scratch than a large one: widths at which the key blocks that fit beside it do not halve.
TEST(MixedTiles, GiveWhatEachPieceGivesAlone) {
  struct Widths {
    std::int64_t d_k, d_v;
  };
  for (const auto [d_k, d_v] :
       {Widths{44, 44}, {52, 52}, {60, 60}, {88, 88}, {112, 112}, {128, 80}, {80, 128}, {7, 160}})
    for (DType dtype : {DType::f64, DType::f32, DType::bf16})
      for (Weight weight : {Weight::softmax, Weight::relu2}) {
        Options options{.batch = 2, .n_q = 100, .n_k = 100, .d_k = d_k, .d_v = d_v, .weight = weight, .dtype = dtype};
        options.usual_tiles = true;
        options.pieces = {{0, 0, 80, 0, 80, nullptr}, {1, 0, 1, 0, 1, nullptr}};
        Options apart = options;
        options.bias = apart.bias = Bias::dense;
        const Arrays both = run(options, 2);
        apart.pieces.pop_back();
        const Arrays first = run(apart, 2);
        apart.pieces = {options.pieces.back()};
        const Arrays last = run(apart, 2);
        EXPECT_EQ(both.o.values, sum(first.o.values, last.o.values));
        EXPECT_EQ(both.dq.values, sum(first.dq.values, last.dq.values));
        EXPECT_EQ(both.dk.values, sum(first.dk.values, last.dk.values));
        EXPECT_EQ(both.dv.values, sum(first.dv.values, last.dv.values));
        EXPECT_EQ(both.d_bias, sum(first.d_bias, last.d_bias));
      }
}

}  // namespace
}  // namespace fovea::tile::testing
