// Outputs of half types in f32, and what they lose when they are rounded.

#include <gtest/gtest.h>

#include <cmath>

#include "device_case.h"

namespace fovea::tile::testing {
namespace {

struct OutputCase {
  const char* name;
  DType dtype;
  bool wide;         // f32, or its dtype with a rest
  std::int64_t d_v;  // 64: tensor cores, if the output is not wide; 20: the portable kernels
};
void PrintTo(const OutputCase& c, std::ostream* out) { *out << c.name; }

class Outputs : public ::testing::TestWithParam<OutputCase> {};

TEST_P(Outputs, AndGradientsAreThoseOfTheDefinition) {
  const OutputCase& s = GetParam();
  AttentionCase c({.name = s.name,
                   .batch = 2,
                   .n_q = 150,
                   .n_k = 150,
                   .d_k = s.d_v,
                   .d_v = s.d_v,
                   .pattern = Pattern::causal(),
                   .tile = cuda::kTile,
                   .dtype = s.dtype});
  Arrays& a = c.arrays();
  const DType type = s.wide ? DType::f32 : s.dtype;
  const Options& o = c.options();
  a.o = Field::make(o, o.n_q, o.heads, o.d_v, type);
  a.d_o = Field::make(o, o.n_q, o.heads, o.d_v, type);
  Field rest = Field::make(o, o.n_q, o.heads, o.d_v, type);
  Random random(3);
  a.d_o.fill(random, 1.0);

  Mirror mirror;
  Problem p = problem_on(mirror, c);
  p.wide_outputs = s.wide;
  const In q = mirror.in(a.q), k = mirror.in(a.k), v = mirror.in(a.v);
  const Out to = mirror.out(a.o), lse = mirror.out(a.lse), lost = s.wide ? Out{} : mirror.out(rest);
  const auto again = [](const Out& x) { return In{x.data, x.batch, x.row, x.head}; };
  cuda::forward({}, p, {q, k, v, to, lse, lost});
  cuda::backward({}, p,
                 {.q = q,
                  .k = k,
                  .v = v,
                  .o = again(to),
                  .lse = again(lse),
                  .d_o = mirror.in(a.d_o),
                  .d_lse = {},
                  .dq = mirror.out(a.dq),
                  .dk = mirror.out(a.dk),
                  .dv = mirror.out(a.dv),
                  .d_bias = {},
                  .rest = again(lost)});
  mirror.finish();
  for (Field* field : {&a.o, &rest, &a.dq, &a.dk, &a.dv}) field->load();

  const Arrays want = c.reference();
  std::vector<double> whole = a.o.values;
  for (std::size_t i = 0; !s.wide && i < whole.size(); ++i) {
    EXPECT_LE(std::abs(rest.values[i]), std::abs(a.o.values[i]) * 0x1p-8 + 1e-7);
    whole[i] += rest.values[i];
  }
  const bool rounds_weights = !s.wide && s.d_v == 64;
  EXPECT_LT(difference(whole, want.o.values), rounds_weights ? 4e-3 : 2e-5);
  for (const auto field : {&Arrays::dq, &Arrays::dk, &Arrays::dv})
    EXPECT_LT(difference((a.*field).values, (want.*field).values), 1.5e-2);
}

INSTANTIATE_TEST_SUITE_P(All, Outputs,
                         ::testing::Values(OutputCase{"bf16_wide", DType::bf16, true, 64},
                                           OutputCase{"f16_wide", DType::f16, true, 20},
                                           OutputCase{"bf16_rest", DType::bf16, false, 64},
                                           OutputCase{"f16_rest", DType::f16, false, 64},
                                           OutputCase{"bf16_rest_portable", DType::bf16, false, 20}),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace fovea::tile::testing
