#include <gtest/gtest.h>

#include <cmath>
#include <numbers>

#include "support/expect_error.h"
#include "unit/mechanisms/mechanism_calls.h"

namespace fovea {
namespace {

constexpr std::int64_t kLength = 21, kHeads = 2, kWidth = 4;
constexpr auto kRows = static_cast<std::size_t>(kLength);

class Kernel : public MechanismCalls, public ::testing::Test {
 protected:
  Kernel() : MechanismCalls({1, kLength, kHeads, kWidth}) {}

  Var scaled(const Var& x, double factor) {
    std::vector<double> values = x.value().to_vector<double>();
    for (double& value : values) value *= factor;
    return Var(Tensor::from<double>(context_, x.shape(), values));
  }

  // Weights as a new layer has them.
  std::vector<Var> weights(const Mechanism& mechanism) {
    return make_weights(context_, mechanism,
                        {.heads = kHeads, .kv_heads = kHeads, .d_k = kWidth, .d_v = kWidth, .width = 3}, DType::f64);
  }
  Tensor run(const char* text, AttentionOptions options = {}, TapeOptions tape_options = {.record = false}) {
    const Mechanism mechanism = Mechanism::parse(text);
    if (options.weights.empty()) options.weights = weights(mechanism);
    if (mechanism.needs_input()) options.input = input_;
    Tape tape(context_, tape_options);
    return attention(tape, q_, k_, v_, mechanism, options).output.value();
  }

  Tensor performer_in_f32(const Var& k, bool causal) {
    const auto narrow = [&](const Var& x) { return Var(x.value().to(context_, DType::f32)); };
    const Mechanism mechanism("performer");
    AttentionOptions options{.causal = causal};
    options.weights = {narrow(weights(mechanism)[0])};
    Tape tape(context_, {.record = false});
    return attention(tape, narrow(q_), narrow(k), narrow(v_), mechanism, options).output.value();
  }

  // Row t of head h as the weighted sum of values; normed: divided by the sum of the weights.
  template <class Weight>
  std::vector<double> dense(bool causal, bool normed, const Weight& weight) {
    std::vector<double> out;
    for (std::size_t t = 0; t < kRows; ++t)
      for (std::size_t h = 0; h < kHeads; ++h) {
        std::vector<double> row(kWidth, 0.0);
        double sum = 0.0;
        for (std::size_t j = 0; j < (causal ? t + 1 : kRows); ++j) {
          const double w = weight(t, j, h);
          sum += w;
          for (std::size_t c = 0; c < kWidth; ++c) row[c] += w * at(v_, j, h, c);
        }
        for (double x : row) out.push_back(normed ? x / sum : x);
      }
    return out;
  }
  static double at(const Var& x, std::size_t t, std::size_t h, std::size_t c) {
    return x.value().data<double>()[(t * kHeads + h) * kWidth + c];
  }
  double product(std::size_t t, std::size_t j, std::size_t h) const {
    double sum = 0.0;
    for (std::size_t c = 0; c < kWidth; ++c) sum += at(q_, t, h, c) * at(k_, j, h, c);
    return sum;
  }
  static void normalize_heads(std::vector<double>& rows, double eps) {
    for (std::size_t i = 0; i < rows.size(); i += kWidth) {
      double squares = 0.0;
      for (std::size_t c = 0; c < kWidth; ++c) squares += rows[i + c] * rows[i + c] / kWidth;
      for (std::size_t c = 0; c < kWidth; ++c) rows[i + c] /= std::sqrt(squares + eps);
    }
  }

  static double distance(const Tensor& got, const std::vector<double>& want) {
    const std::vector<double> values = got.to_vector<double>();
    double worst = values.size() == want.size() ? 0.0 : INFINITY;
    for (std::size_t i = 0; i < std::min(values.size(), want.size()); ++i)
      worst = std::fmax(worst, std::abs(values[i] - want[i]));
    return worst;
  }
  static double distance(const Tensor& got, const Tensor& want) { return distance(got, want.to_vector<double>()); }

  const Shape shape_{1, kLength, kHeads, kWidth};
  Var input_ = random({1, kLength, 3}, 4);
};

TEST_F(Kernel, PerformerComesCloseToSoftmax) {
  q_ = scaled(q_, 0.7);
  k_ = scaled(k_, 0.7);
  const Tensor softmax = run("softmax");
  const double few = distance(run("performer:features=16"), softmax),
               many = distance(run("performer:features=16384"), softmax);
  EXPECT_LT(many, 0.05);
  EXPECT_LT(5.0 * many, few);
  EXPECT_LT(distance(run("performer:features=16384", {.causal = true}), run("softmax", {.causal = true})), 0.1);
}

TEST_F(Kernel, PerformerKeepsAConstant) {
  v_ = filled(shape_, 3.5);
  for (const char* text : {"performer", "performer:kernel=relu", "performer:eps_mode=inside"})
    EXPECT_LT(distance(run(text), v_.value()), 1e-12) << text;
}

// Where epsilon and clamp are 0, the published modes are the exact one: the maxima cancel.
TEST_F(Kernel, PublishedPerformersAreExactWithoutEpsilon) {
  const Tensor exact = run("performer");
  for (const char* mode : {"inside", "outside"})
    EXPECT_LT(distance(run((std::string("performer:eps=0,eps_mode=") + mode).c_str()), exact), 1e-12) << mode;
  EXPECT_GT(distance(run("performer:eps_mode=outside"), exact), 1e-6);
}

TEST_F(Kernel, PublishedPerformersWouldReadTheFuture) {
  EXPECT_FALSE(Mechanism::parse("performer:eps_mode=inside").supports(Feature::causal));
  EXPECT_TRUE(Mechanism::parse("performer:eps_mode=inside,kernel=relu").supports(Feature::causal));
  EXPECT_ERROR(run("performer:eps_mode=inside", {.causal = true}), ErrorCode::unsupported, "causal", "", "");
}

TEST_F(Kernel, PerformerRedrawsInTrainingOnly) {
  const Tensor kept = run("performer:features=8");
  for (const char* text : {"performer:features=8,redraw=orthogonal", "performer:features=8,redraw=iid"}) {
    EXPECT_EQ(distance(run(text), kept), 0.0);
    const Tensor first = run(text, {}, {.training = true, .stream = 1}),
                 again = run(text, {}, {.training = true, .stream = 1}),
                 other = run(text, {}, {.training = true, .stream = 2});
    EXPECT_EQ(distance(first, again), 0.0);
    EXPECT_GT(distance(first, other), 1e-3);
    EXPECT_GT(distance(first, kept), 1e-3);
  }
}

// What all features of a key, or of a query, have in common cancels: also where it is far below the smallest float.
TEST_F(Kernel, PerformerKeepsRowsOfLongKeys) {
  const std::vector<double> w = weights(Mechanism("performer"))[0].value().to_vector<double>();
  for (const double size : {2.0, 28.0, 40.0}) {
    k_ = random(shape_, 2);
    for (std::size_t row = 0; row < kRows * kHeads;
         ++row) {  // all of one length: none is there to weigh for the others
      double *key = k_.value().data<double>() + row * kWidth, squares = 0.0;
      for (std::size_t c = 0; c < kWidth; ++c) squares += key[c] * key[c];
      for (std::size_t c = 0; c < kWidth; ++c) key[c] *= size / std::sqrt(squares);
    }
    // e^(log of a feature of q times one of k): without the root of the scale, 4^(-1/4) each.
    const auto logs = [&](const Var& x, std::size_t t, std::size_t h, bool key) {
      std::vector<double> u;
      for (std::size_t l = 0; l < w.size(); l += kWidth) {
        double sum = 0.0;
        for (std::size_t c = 0; c < kWidth; ++c)
          sum += w[l + c] * at(x, t, h, c) / std::sqrt(2.0) - (key ? at(x, t, h, c) * at(x, t, h, c) / 4.0 : 0.0);
        u.push_back(sum);
      }
      return u;
    };
    for (const bool causal : {false, true}) {
      std::vector<double> want;
      for (std::size_t t = 0; t < kRows; ++t)
        for (std::size_t h = 0; h < kHeads; ++h) {
          const std::vector<double> q = logs(q_, t, h, false);
          double top = -INFINITY, sum = 0.0;
          std::vector<double> row(kWidth, 0.0);
          for (const bool measure : {true, false})
            for (std::size_t j = 0; j < (causal ? t + 1 : kRows); ++j) {
              const std::vector<double> k = logs(k_, j, h, true);
              for (std::size_t l = 0; l < q.size(); ++l) {
                if (measure) top = std::fmax(top, q[l] + k[l]);
                const double weight = measure ? 0.0 : std::exp(q[l] + k[l] - top);
                sum += weight;
                for (std::size_t c = 0; c < kWidth; ++c) row[c] += weight * at(v_, j, h, c);
              }
            }
          for (const double x : row) want.push_back(x / sum);
        }
      EXPECT_LT(distance(run("performer", {.causal = causal}), want), 1e-9) << size << " causal " << causal;
    }
    for (const bool causal : {false, true})
      EXPECT_LT(distance(performer_in_f32(k_, causal), run("performer", {.causal = causal}).to_vector<double>()), 1e-3)
          << size << " causal " << causal;
  }
}

// What a row gives is the same to the last bit, however long the keys behind it are.
TEST_F(Kernel, PerformersLongKeysDoNotReachThePast) {
  const auto first_rows = [&](double later) {
    const Var k = scaled(k_, 1.0);
    const std::int64_t half = k.value().numel() / 2;
    for (std::int64_t i = half; i < 2 * half; ++i) k.value().data<double>()[i] *= later;
    return performer_in_f32(k, true).slice(1, 0, kLength / 2).to_vector<float>();
  };
  EXPECT_EQ(first_rows(1.0), first_rows(40.0));
}

TEST_F(Kernel, PerformerRefuses) {
  EXPECT_ERROR(Mechanism::parse("performer:features=0"), ErrorCode::usage, "between 1 and", "", "");
  EXPECT_ERROR(run("performer", {.scale = -1.0}), ErrorCode::usage, "scale", "", "");
}

TEST_F(Kernel, GaussiansRefuseANegativeScale) {
  for (const char* text : {"kernelized", "skyformer", "lara"})
    EXPECT_ERROR(run(text, {.scale = -0.5}, {.training = true}), ErrorCode::usage, "scale -0.5", "scale", "at least 0");
}

TEST_F(Kernel, RfaComesCloseToSoftmaxOfCosines) {
  const auto cosine = [&](std::size_t t, std::size_t j, std::size_t h) {
    double q = 0.0, k = 0.0;
    for (std::size_t c = 0; c < kWidth; ++c) {
      q += at(q_, t, h, c) * at(q_, t, h, c);
      k += at(k_, j, h, c) * at(k_, j, h, c);
    }
    return std::exp(product(t, j, h) / ((std::sqrt(q) + 1e-3) * (std::sqrt(k) + 1e-3)));
  };
  const std::vector<double> want = dense(false, true, cosine);
  EXPECT_LT(distance(run("rfa:features=20000"), want), 0.03);
  EXPECT_LT(5.0 * distance(run("rfa:features=20000"), want), distance(run("rfa:features=20"), want));
}

TEST_F(Kernel, RfaIgnoresLengths) {
  const Tensor before = run("rfa");
  q_ = scaled(q_, 10.0);
  k_ = scaled(k_, 10.0);
  EXPECT_LT(distance(run("rfa"), before), 0.05);
  EXPECT_GT(distance(run("performer"), before), 0.1);
}

// At a huge temperature all pairs look alike, and a constant gate makes a geometric mean of the past.
TEST_F(Kernel, RfaGateForgets) {
  const Mechanism mechanism = Mechanism::parse("rfa:gate=true,tau=1000");
  std::vector<Var> w = weights(mechanism);
  w[2] = filled(w[2].shape(), 0.0);
  w[3] = filled(w[3].shape(), 1.0);
  const double g = 1.0 / (1.0 + std::exp(-1.0));
  const std::vector<double> want = dense(true, true, [&](std::size_t t, std::size_t j, std::size_t) {
    return (1.0 - g) * std::pow(g, static_cast<double>(t - j));
  });
  EXPECT_LT(distance(run("rfa:gate=true,tau=1000", {.causal = true, .weights = w}), want), 1e-4);
  EXPECT_ERROR(run("rfa:gate=true"), ErrorCode::unsupported, "bidirectional", "", "");
}

TEST_F(Kernel, CosformerIsTheReweightedProduct) {
  const auto weight = [&](std::size_t t, std::size_t j, std::size_t h) {
    double sum = 0.0;
    for (std::size_t c = 0; c < kWidth; ++c) sum += std::fmax(at(q_, t, h, c), 0.0) * std::fmax(at(k_, j, h, c), 0.0);
    const double away = static_cast<double>(t) - static_cast<double>(j);
    return sum * std::cos(std::numbers::pi * away / (2.0 * 256.0));
  };
  for (const Var* x : {&q_, &k_})  // a row without a positive channel would have no weights at all
    for (std::int64_t i = 0; i < x->value().numel(); i += kWidth) x->value().data<double>()[i] = 1.0;
  EXPECT_LT(distance(run("cosformer:max_length=256"), dense(false, true, weight)), 1e-12);
  EXPECT_LT(distance(run("cosformer:max_length=256", {.causal = true}), dense(true, true, weight)), 1e-12);
}

TEST_F(Kernel, CosformerWithoutAnEndIsLinear) {
  EXPECT_LT(distance(run("cosformer:max_length=1000000000"), run("linear:map=relu,denominator=clamp")), 1e-9);
}

TEST_F(Kernel, CosformerKnowsItsLength) {
  EXPECT_GT(distance(run("cosformer:period=current"), run("cosformer")), 1e-3);
  EXPECT_FALSE(Mechanism::parse("cosformer:period=current").supports(Feature::step));
  q_ = k_ = v_ = random({1, 300, kHeads, kWidth}, 1);
  EXPECT_ERROR(run("cosformer:max_length=256"), ErrorCode::usage, "longer than max_length = 256", "", "");
}

TEST_F(Kernel, RetnetFadesByHead) {
  const auto weight = [&](std::size_t t, std::size_t j, std::size_t h) {
    const double rate = 1.0 - std::exp2(-5.0 - static_cast<double>(h));
    return 0.5 * product(t, j, h) * std::pow(rate, static_cast<double>(t - j));
  };
  std::vector<double> want = dense(true, false, weight);
  EXPECT_LT(distance(run("retnet:norm=none", {.causal = true}), want), 1e-13);
  EXPECT_LT(distance(run("retnet:norm=none", {.causal = true, .scale = 1.0}),
                     [&] {
                       std::vector<double> twice = want;
                       for (double& x : twice) x *= 2.0;
                       return twice;
                     }()),
            1e-13);
  normalize_heads(want, 1e-6);
  EXPECT_LT(distance(run("retnet", {.causal = true}), want), 1e-12);
}

TEST_F(Kernel, FadingNeedsAnOrder) {
  for (const char* text : {"retnet", "lightning", "gla"})
    EXPECT_ERROR(run(text), ErrorCode::unsupported, "bidirectional", "", "");
}

// The last layer remembers nearly everything, the first fades by the slopes of ALiBi: 2^-4 and 2^-8 for two heads.
TEST_F(Kernel, LightningFadesByLayer) {
  const auto at_rate = [&](double layer_factor) {
    return dense(true, false, [&, layer_factor](std::size_t t, std::size_t j, std::size_t h) {
      const double slope = std::exp2(-4.0 * static_cast<double>(h + 1)) * (layer_factor + 1e-5);
      return product(t, j, h) * std::exp(-slope * static_cast<double>(t - j));
    });
  };
  for (const std::int64_t layer : {0, 1, 2})
    EXPECT_LT(distance(run("lightning:norm=none", {.causal = true, .layer = layer, .layers = 3}),
                       at_rate(1.0 - 0.5 * static_cast<double>(layer))),
              1e-13);
}

TEST_F(Kernel, GlaWithOpenGatesForgetsNothing) {
  const auto with_bias = [&](double bias) {
    std::vector<Var> w = weights(Mechanism("gla"));
    w[1] = filled(w[1].shape(), 0.0);
    w[2] = filled(w[2].shape(), bias);
    return run("gla", {.causal = true, .weights = w});
  };
  std::vector<double> all =
      dense(true, false, [&](std::size_t t, std::size_t j, std::size_t h) { return 0.5 * product(t, j, h); });
  std::vector<double> own = dense(
      true, false, [&](std::size_t t, std::size_t j, std::size_t h) { return t == j ? 0.5 * product(t, j, h) : 0.0; });
  normalize_heads(all, 1e-5);
  normalize_heads(own, 1e-5);
  EXPECT_LT(distance(with_bias(60.0), all), 1e-9);
  EXPECT_LT(distance(with_bias(-2000.0), own), 1e-9);  // gates of e^-125: no overflow, no NaN
}

TEST_F(Kernel, GlaNeedsTheInputOfItsLayer) {
  Tape tape(context_, {.record = false});
  const Mechanism mechanism("gla");
  EXPECT_ERROR(attention(tape, q_, k_, v_, mechanism, {.causal = true, .weights = weights(mechanism)}),
               ErrorCode::usage, "reads the input", "", "");
}

}  // namespace
}  // namespace fovea
