#include "unit/mechanisms/mechanism_fixture.h"

// Gated units, polynomial attention and state spaces in the limits where they are something else.
namespace fovea {
namespace {

using Units = MechanismTest;

TEST_F(Units, OneLongChunkIsTheQuadraticUnit) {
  AttentionOptions chunked, quadratic;
  chunked.causal = quadratic.causal = true;
  chunked.weights = weights_of("flash-gau:chunk=32");
  quadratic.weights = weights_of("flash-quad:divisor=32,table=32");
  for (std::size_t i = 0; i < 2; ++i) {  // gains and shifts: the pairs of the quadratic half come first
    const Var drawn = random({2, kWidth}, 50 + i);
    quadratic.weights[i].value().copy_from(drawn.value());
    chunked.weights[i].value().slice(0, 0, 2).copy_from(drawn.value());
  }
  quadratic.weights[2].value().copy_from(chunked.weights[2].value());
  EXPECT_LT(largest_difference(run("flash-gau:chunk=32", chunked), run("flash-quad:divisor=32,table=32", quadratic)),
            1e-13);
}

TEST_F(Units, TheLinearHalfReadsEarlierChunksOnly) {
  const char* mechanism = "flash-gau:chunk=4";
  AttentionOptions options;
  options.causal = true;
  options.weights = weights_of(mechanism);
  fill(options.weights[2], 0.0);
  options.weights[0].value().slice(0, 0, 2).fill(0.0);  // no quadratic half
  options.weights[0].value().slice(0, 2, 4).fill(1.0);
  const std::vector<double> o = run(mechanism, options);
  const double *q = q_.value().data<double>(), *k = k_.value().data<double>(), *v = v_.value().data<double>();
  const std::int64_t stride = kHeads * kWidth;
  for (std::int64_t i = 0; i < kTokens; ++i) {
    double want = 0.0;
    for (std::int64_t j = 0; j < i / 4 * 4; ++j)
      for (std::int64_t c = 0; c < kWidth; ++c) want += q[i * stride + c] * k[j * stride + c] * v[j * stride] / 4.0;
    EXPECT_NEAR(o[static_cast<std::size_t>(i * stride)], want, 1e-12) << i;
  }
}

TEST_F(Units, ScaleOfTheCurrentLengthIsNotStrict) {
  EXPECT_TRUE(Mechanism("flash-quad").supports(Feature::strict));
  EXPECT_FALSE(Mechanism::parse("flash-quad:scale=current").supports(Feature::strict));
  EXPECT_FALSE(Mechanism::parse("flash-quad:scale=current").supports(Feature::step));
}

TEST_F(Units, OneLongBlockIsTheExactPolynomial) {
  AttentionOptions options, exact;
  options.causal = exact.causal = true;
  options.weights = weights_of("polysketch:block=32");
  exact.weights = {options.weights[0], options.weights[1]};
  EXPECT_LT(largest_difference(run("polysketch:block=32", options), run("polysketch:form=exact", exact)), 1e-13);
  options.weights = weights_of("polysketch:block=8");
  EXPECT_GT(largest_difference(run("polysketch:block=8", options), run("polysketch:form=exact", exact)), 1e-4);
}

// A wide sketch is near the polynomial; the published scale is not, the 1 in the denominator takes over.
TEST_F(Units, WideSketchesApproachThePolynomial) {
  const std::vector<double> exact = run_fresh("polysketch:form=exact");
  const double wide = largest_difference(run_fresh("polysketch:features=256"), exact);
  EXPECT_LT(wide, largest_difference(run_fresh("polysketch:features=4"), exact));
  EXPECT_LT(wide, 0.5 * largest_difference(run_fresh("polysketch:features=256,scale=public"), exact));
}

TEST_F(Units, AStateSpaceWithOneRealModeIsAnExponentialFilter) {
  const char* mechanism = "s4d:states=2";
  AttentionOptions options;
  options.causal = true;
  options.weights = weights_of(mechanism);
  const double dt = 0.05, c = 0.7, skip = -0.3;  // A = -1/2
  fill(options.weights[0], std::log(100.0 * dt));
  fill(options.weights[3], 0.0);
  for (std::int64_t i = 0; i < options.weights[3].value().numel(); i += 2)
    options.weights[3].value().data<double>()[i] = c;
  fill(options.weights[4], skip);
  const std::vector<double> o = run(mechanism, options);
  const double *v = v_.value().data<double>(), z = std::exp(-0.5 * dt), gain = 2.0 * c * (1.0 - z) / 0.5;
  double state = 0.0;
  for (std::size_t i = 0; i < kTokens; ++i) {
    const double u = v[i * kHeads * kWidth];
    state = z * state + u;
    EXPECT_NEAR(o[i * kHeads * kWidth], gain * state + skip * u, 1e-12) << i;
  }
}

TEST_F(Units, AStateSpaceReadsValuesOnly) {
  const std::vector<double> o = run_fresh("s4d");
  fill(q_, 3.0);
  fill(k_, -1.0);
  EXPECT_EQ(o, run_fresh("s4d"));
}

}  // namespace
}  // namespace fovea
