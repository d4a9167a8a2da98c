// Every policy, compiled for the card, against the same policy on the host.

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "policy/activation.h"
#include "policy/alibi.h"
#include "policy/dropout.h"
#include "policy/feature_map.h"
#include "policy/log_sigmoid.h"
#include "policy/math.h"
#include "policy/pointwise_weight.h"
#include "policy/row_rule.h"
#include "policy/sine_cosine.h"
#include "policy/softmax.h"

namespace fovea {
namespace {

constexpr int kMostValues = 96;

template <class R>
struct Values {
  R value[kMostValues];
  const char* name[kMostValues];
  int count = 0;
  FOVEA_HD void operator()(const char* what, R x) {
    name[count] = what;
    value[count++] = x;
  }
};

template <class P, class R>
FOVEA_HD void add_map(Values<R>& to, const char* name, R x) {
  to(name, P::apply(x));
  to(name, P::slope(P::apply(x)));
}

template <class R>
FOVEA_HD void add_maths(Values<R>& to, R x) {
  to("exp2", math::exp2(x));
  to("exp2_low", math::exp2_low(-math::absolute(x)));
  to("exp", math::exp(x));
  to("expm1", math::expm1(x));
  to("tanh", math::tanh(x));
  to("sigmoid", math::sigmoid(x));
  to("erf", math::erf(x));
  to("log", math::log(math::absolute(x)));
  to("sine", math::sine_cosine(x).sine);
  to("cosine", math::sine_cosine(x).cosine);
  to("alibi", Alibi::apply(x, R(0.25), R(-3)));
  to("log_sigmoid", policy::LogSigmoid::apply(x));
  to("log_sigmoid slope", policy::LogSigmoid::slope(x));
}

template <class R>
FOVEA_HD void add_maps(Values<R>& to, R x) {
  add_map<policy::Identity>(to, "identity", x);
  add_map<policy::Relu>(to, "relu", x);
  add_map<policy::Gelu>(to, "gelu", x);
  add_map<policy::GeluTanh>(to, "gelu_tanh", x);
  add_map<policy::GeluQuick>(to, "gelu_quick", x);
  add_map<policy::Silu>(to, "silu", x);
  add_map<policy::ReluSquared>(to, "relu_squared", x);
  add_map<policy::Elu>(to, "elu", x);
  add_map<policy::EluPlusOne>(to, "elu_plus_one", x);
  add_map<policy::Tanh>(to, "tanh", x);
  add_map<policy::Sigmoid>(to, "sigmoid", x);
  add_map<policy::IdentityMap>(to, "identity map", x);
  add_map<policy::EluPlusOneMap>(to, "1 + elu map", x);
  add_map<policy::EluMap>(to, "elu map", x);
  add_map<policy::ReluMap>(to, "relu map", x);
}

template <class W, class R>
FOVEA_HD void add_weight(Values<R>& to, const char* name, const W& weight, R x) {
  to(name, weight.weigh(x));
  to(name, weight.vjp(x, weight.weigh(x), R(0.7)));
}

template <class R>
FOVEA_HD void add_weights(Values<R>& to, R x) {
  add_weight(to, "rela", Rela{}, x);
  add_weight(to, "relu2", Relu2{}, x);
  add_weight(to, "sigmoid weight", SigmoidWeight{-0.3}, x);
  add_weight(to, "exponential", ExponentialWeight{}, x);
  add_weight(to, "power", PolynomialWeight::power(4), x);
  add_weight(to, "taylor", PolynomialWeight::taylor(4), x);
  to("fold", Softmax::fold(x, x + 1));
  to("weigh", Softmax::weigh(x, R(100)));
  to("statistic", Softmax::statistic(x, R(3)));
  to("reopen", Softmax::reopen(x));
  to("again", Softmax::again(x, R(100)));
  to("vjp", Softmax::vjp(x, R(0.5), x, R(0.1)));
  to("self-adjust weight", SelfAdjust::weight(x, R(0.25)));
  to("self-adjust vjp", SelfAdjust::vjp(x, R(0.25), R(0.5), R(0.1)));
}

template <class R>
FOVEA_HD void add_rules(Values<R>& to, R x) {
  using Search = TopKSearch<R>;
  to("image", Search::value(Search::image(x)));
  to("middle", Search::value(Search::middle(Search::image(x), Search::image(x + 2), false)));
  to("middle image", Search::value(Search::middle(Search::image(x), Search::image(x + 2), true)));
  to("sparsemax", Sparsemax::weigh(x, R(-0.5)));
  to("sparsemax step", Sparsemax::step(x, R(3)));
  to("entmax", Entmax15::weigh(x, R(-0.5)));
  to("entmax step", Entmax15::step<R>({R(3), math::absolute(x) + 1, x * x + 2, R(0.1)}).length);
  const auto adjust = SelfAdjustNormalized<R>::of(x - 1, x + 1);
  to("adjust", adjust.weigh(x, R(0.5)));
  to("adjust vjp", adjust.vjp(x, R(0.5), R(0.25), R(0.1)));
  const PairDropout pairs = PairDropout::of(0.3f, 7, 3).at(2, 5);
  const auto row = static_cast<std::int64_t>(math::absolute(x) < 100 ? math::absolute(x) * 1000 : R{7});
  to("keep", pairs.keep(row, 3 * row + 1) ? R{1} : R{0});
  to("word", static_cast<R>(pairs.words(static_cast<std::uint32_t>(row), 17).word[2] >> 8));
}

template <class R>
FOVEA_HD void evaluate(R x, Values<R>& to) {
  add_maths(to, x);
  add_maps(to, x);
  add_weights(to, x);
  add_rules(to, x);
}

template <class R>
__global__ void evaluate_kernel(const R* x, R* y, int n) {
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i >= n) return;
  Values<R> values;
  evaluate(x[i], values);
  for (int k = 0; k < values.count; ++k) y[k * n + i] = values.value[k];
}

template <class R>
class Policies : public ::testing::Test {};
using Reals = ::testing::Types<float, double>;
TYPED_TEST_SUITE(Policies, Reals);

TYPED_TEST(Policies, AgreeOnHostAndDevice) {
  using R = TypeParam;
  std::vector<R> x{0,    R(-0.0), math::kInfinity<R>, -math::kInfinity<R>, std::numeric_limits<R>::quiet_NaN(),
                   1000, -1000};
  for (int i = -4000; i <= 4000; ++i) x.push_back(R(i) * R(0.0101));
  const int n = static_cast<int>(x.size());
  R *device_x = nullptr, *device_y = nullptr;
  ASSERT_EQ(cudaMalloc(&device_x, x.size() * sizeof(R)), cudaSuccess);
  ASSERT_EQ(cudaMalloc(&device_y, x.size() * sizeof(R) * kMostValues), cudaSuccess);
  ASSERT_EQ(cudaMemcpy(device_x, x.data(), x.size() * sizeof(R), cudaMemcpyHostToDevice), cudaSuccess);
  evaluate_kernel<R><<<(n + 127) / 128, 128>>>(device_x, device_y, n);
  std::vector<R> y(x.size() * kMostValues);
  ASSERT_EQ(cudaMemcpy(y.data(), device_y, y.size() * sizeof(R), cudaMemcpyDeviceToHost), cudaSuccess);
  cudaFree(device_x);
  cudaFree(device_y);
  const double limit = std::is_same_v<R, float> ? 3e-6 : 3e-14;
  for (int i = 0; i < n; ++i) {
    Values<R> want;
    evaluate(x[static_cast<std::size_t>(i)], want);
    for (int k = 0; k < want.count; ++k) {
      const double ours = y[static_cast<std::size_t>(k * n + i)], host = want.value[k];
      if (ours == host || (std::isnan(ours) && std::isnan(host))) continue;
      const double size = std::max(std::fabs(host), 1.0);
      ASSERT_LT(std::fabs(ours - host) / size, limit)
          << want.name[k] << " of " << x[static_cast<std::size_t>(i)] << ": " << ours << " and " << host;
    }
  }
}

}  // namespace
}  // namespace fovea
