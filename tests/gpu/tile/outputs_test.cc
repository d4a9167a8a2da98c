// Outputs of half types in f32, and what they lose when they are rounded.

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "device_case.h"

namespace fovea::tile::testing {
namespace {

struct OutputCase {
  const char* name;
  DType dtype;
  bool wide;         // f32, or its dtype with a rest
  std::int64_t d_v;  // 32, 64, 128: tensor cores; 20: the portable kernels
  std::int64_t n = 150;
  bool diagonal = false, strange = false;  // blocks on the diagonal; with a NaN that others must not see
  std::int64_t group = 1;
};
Pattern pattern_of(const OutputCase& s) {
  return s.diagonal ? Pattern::causal() & Pattern::block_diagonal(64) : Pattern::causal();
}
void put_nan(Field& field, std::int64_t row, std::int64_t head) {
  for (std::int64_t x = 0; x < 64; ++x) field.at(0, row, head, x) = std::numeric_limits<double>::quiet_NaN();
  field.store();
}
void PrintTo(const OutputCase& c, std::ostream* out) { *out << c.name; }

class Outputs : public ::testing::TestWithParam<OutputCase> {};

TEST_P(Outputs, AndGradientsAreThoseOfTheDefinition) {
  const OutputCase& s = GetParam();
  AttentionCase c({.name = s.name,
                   .batch = 2,
                   .n_q = s.n,
                   .n_k = s.n,
                   .heads = 2 * s.group,
                   .kv_heads = 2,
                   .d_k = s.d_v,
                   .d_v = s.d_v,
                   .pattern = pattern_of(s),
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
  if (s.strange) put_nan(a.v, 140, 0), put_nan(a.d_o, 70, 1);

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
  const bool rounds_weights = s.d_v % 8 == 0;
  EXPECT_LT(difference(whole, want.o.values), rounds_weights ? 4e-3 : 2e-5);
  for (const auto field : {&Arrays::dq, &Arrays::dk, &Arrays::dv})
    EXPECT_LT(difference((a.*field).values, (want.*field).values), 1.5e-2);
}

INSTANTIATE_TEST_SUITE_P(
    All, Outputs,
    ::testing::Values(
        OutputCase{"bf16_wide", DType::bf16, true, 64}, OutputCase{"bf16_wide_d32", DType::bf16, true, 32, 200},
        OutputCase{"bf16_wide_d128_grouped", DType::bf16, true, 128, 150, false, false, 2},
        OutputCase{"bf16_wide_in_parts", DType::bf16, true, 64, 1100},
        OutputCase{"bf16_wide_diagonal", DType::bf16, true, 64, 200, true},
        OutputCase{"bf16_wide_strange", DType::bf16, true, 64, 200, false, true},
        OutputCase{"bf16_wide_portable", DType::bf16, true, 20}, OutputCase{"f16_wide", DType::f16, true, 64},
        OutputCase{"f16_wide_portable", DType::f16, true, 20}, OutputCase{"bf16_rest", DType::bf16, false, 64},
        OutputCase{"f16_rest", DType::f16, false, 64}, OutputCase{"bf16_rest_portable", DType::bf16, false, 20}),
    [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace fovea::tile::testing
