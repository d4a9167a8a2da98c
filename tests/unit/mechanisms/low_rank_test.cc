#include "unit/mechanisms/mechanism_fixture.h"

// Limits in which mechanisms of low rank are exact, and what they refuse.
namespace fovea {
namespace {

using LowRank = MechanismTest;

TEST_F(LowRank, LinformerWithUnitMatricesIsSoftmax) {
  for (const char* mechanism :
       {"linformer:slots=21", "linformer:slots=21,sharing=none", "linformer:slots=21,sharing=kv"}) {
    AttentionOptions options;
    options.weights = weights_of(mechanism, 30);
    for (const Var& w : options.weights) {
      fill(w, 0.0);
      for (std::int64_t i = 0; i < w.value().numel() / 30; ++i) w.value().data<double>()[i * 30 + i % 21] = 1.0;
    }
    EXPECT_LT(largest_difference(run(mechanism, options), run("softmax")), 1e-13) << mechanism;
  }
}

TEST_F(LowRank, LinformerRefusesLongerSequences) {
  AttentionOptions options;
  options.weights = weights_of("linformer", 20);
  const std::string text = error_of([&] { run("linformer", options); });
  EXPECT_NE(text.find("21 tokens"), std::string::npos) << text;
  EXPECT_NE(text.find("made for 20"), std::string::npos) << text;
}

TEST_F(LowRank, FrozenMatricesHaveNoGradient) {
  EXPECT_FALSE(weights_of("linformer:frozen=true")[0].needs_grad());
  EXPECT_TRUE(weights_of("linformer")[0].needs_grad());
}

TEST_F(LowRank, NystromWithALandmarkForEveryTokenIsSoftmax) {
  EXPECT_LT(largest_difference(run("nystrom:landmarks=21"), run("softmax")), 1e-13);
  EXPECT_GT(largest_difference(run("nystrom:landmarks=5"), run("softmax")), 1e-3);
}

TEST_F(LowRank, NystromReturnsConstantValuesWhenConverged) {
  fill(v_, 1.5);
  EXPECT_LT(largest_spread(run("nystrom:landmarks=5,steps=40")), 1e-8);
}

// Alone in its batch, with one head, an item starts where it would by itself.
TEST_F(LowRank, PublishedStartsDependOnTheBatch) {
  for (const std::string name : {"nystrom:landmarks=5,steps=1", "skyformer:landmarks=8,steps=1"}) {
    const std::string published = name + ",batch_start=true";
    EXPECT_GT(largest_difference(run_fresh(name.c_str()), run_fresh(published.c_str())), 1e-6) << name;
    Tape tape(context_, {.record = false});
    AttentionOptions options;
    options.weights = weights_of(name.c_str());
    const auto first_head = [&](const std::string& text) {
      const auto head = [&](const Var& x) { return slice(tape, x, 2, 0, 1); };
      return attention(tape, head(q_), head(k_), head(v_), Mechanism::parse(text), options)
          .output.value()
          .to_vector<double>();
    };
    EXPECT_EQ(first_head(name), first_head(published)) << name;
  }
}

TEST_F(LowRank, SkyformerDrawsLandmarksAtEvaluationOnRequestOnly) {
  AttentionOptions options;
  options.weights = weights_of("skyformer:landmarks=8");
  Tape tape(context_, {.record = false});
  const auto run_twice_differs = [&](const char* text) {
    const auto once = [&] {
      return attention(tape, q_, k_, v_, Mechanism::parse(text), options).output.value().to_vector<double>();
    };
    return once() != once();
  };
  EXPECT_FALSE(run_twice_differs("skyformer:landmarks=8"));
  EXPECT_TRUE(run_twice_differs("skyformer:landmarks=8,redraw=always"));
}

TEST_F(LowRank, NystromAddsAConvolution) {
  const char* with = "nystrom:landmarks=5,conv=3";
  AttentionOptions options;
  options.weights = weights_of(with);
  fill(options.weights[0], 0.0);
  for (std::int64_t h = 0; h < kHeads; ++h) options.weights[0].value().data<double>()[h * 3 + 2] = 2.0;  // the next row
  const std::vector<double> plain = run("nystrom:landmarks=5"), more = run(with, options);
  const double* v = v_.value().data<double>();
  const std::size_t row = kHeads * kWidth;
  for (std::size_t i = 0; i < plain.size(); ++i)
    EXPECT_NEAR(more[i], plain[i] + (i + row < plain.size() ? 2.0 * v[i + row] : 0.0), 1e-12);
}

TEST_F(LowRank, KernelizedIsSoftmaxsExponentialWithoutItsSizes) {
  const std::vector<double> o = run("kernelized");
  const double *q = q_.value().data<double>(), *k = k_.value().data<double>(), *v = v_.value().data<double>();
  const std::int64_t stride = kHeads * kWidth;
  for (std::int64_t i = 0; i < kTokens; ++i) {
    double want = 0.0;
    for (std::int64_t j = 0; j < kTokens; ++j) {
      double squares = 0.0;
      for (std::int64_t c = 0; c < kWidth; ++c) squares += std::pow(q[i * stride + c] - k[j * stride + c], 2);
      want += std::exp(-0.5 * squares / std::sqrt(8.0)) * v[j * stride];
    }
    EXPECT_NEAR(o[static_cast<std::size_t>(i * stride)], want, 1e-12);
  }
}

// 40 of the 42 points, and the two left out are copies of others: the kernel of all is that of the landmarks.
TEST_F(LowRank, SkyformerWithAllPointsAsLandmarksIsKernelized) {
  for (const Var& x : {q_, k_}) x.value().slice(1, 20, 21).copy_from(x.value().slice(1, 19, 20));
  const char* mechanism = "skyformer:landmarks=40,gamma=1e-7,steps=64";
  AttentionOptions options;
  options.weights = weights_of(mechanism);
  for (std::int64_t i = 0; i < 40; ++i)
    options.weights[0].value().data<double>()[i] = (static_cast<double>(i % 20) + 0.5) / 21.0 - 0.5;
  EXPECT_LT(largest_difference(run(mechanism, options), run("kernelized")), 1e-4);
  EXPECT_EQ(run_fresh("skyformer:landmarks=42"), run("kernelized"));
}

TEST_F(LowRank, SkyformerDrawsAnewInTrainingOnly) {
  AttentionOptions options;
  options.weights = weights_of("skyformer:landmarks=8");
  EXPECT_EQ(run("skyformer:landmarks=8", options), run("skyformer:landmarks=8", options));
  std::vector<double> trained[2];
  for (std::uint64_t step = 0; step < 2; ++step) {
    Tape tape(context_, {.record = false, .training = true, .stream = step << 20});
    trained[step] = attention(tape, q_, k_, v_, Mechanism::parse("skyformer:landmarks=8"), options)
                        .output.value()
                        .to_vector<double>();
  }
  EXPECT_GT(largest_difference(trained[0], trained[1]), 1e-3);
}

TEST_F(LowRank, LongShortWithoutSlotsIsSoftmaxOfNormalisedKeysAndValues) {
  AttentionOptions options;
  options.input = random({1, kTokens, 4}, 5);
  const std::vector<double> o = run("long-short:slots=0,window=64", options);
  Tape tape(context_, {.record = false});
  const auto normal = [&](const Var& x) {
    const Var flat = reshape(tape, x, {1, kTokens, kHeads * kWidth});
    return reshape(tape, normalize(tape, flat, {}), {1, kTokens, kHeads, kWidth});
  };
  const Var want = attention(tape, q_, normal(k_), normal(v_), Mechanism("softmax")).output;
  EXPECT_LT(largest_difference(o, want.value().to_vector<double>()), 1e-13);
}

// Slots that take a single token each: the softmax sees that token's key twice normalised.
TEST_F(LowRank, LongShortSlotsCanPickTokens) {
  const char* mechanism = "long-short:slots=1,window=1";
  AttentionOptions options;
  const Tensor x = Tensor::zeros(context_, {1, kTokens, 1}, DType::f64);
  x.data<double>()[13] = 1000.0;
  options.input = Var(x);
  options.weights = weights_of(mechanism, kTokens, 1);
  fill(options.weights[0], 1.0);
  const std::vector<double> before = run(mechanism, options);
  v_.value().slice(1, 2, 3).fill(5.0);  // no neighbour of row 20, not in the slot
  const std::vector<double> other = run(mechanism, options);
  v_.value().data<double>()[13 * kHeads * kWidth] += 1.0;
  const std::vector<double> picked = run(mechanism, options);
  const std::size_t last = 20 * kHeads * kWidth;
  EXPECT_EQ(before[last], other[last]);
  EXPECT_NE(before[last], picked[last]);
}

// With a projection of zeros a slot is the mean of its chunk: of the keys themselves, normalised once.
TEST_F(LowRank, CausalLongShortCompressesTheProjections) {
  constexpr std::int64_t kChunk = 3, kWindow = 2, kRow = kHeads * kWidth;
  const char* mechanism = "long-short:slots=1,window=2,chunk=3";
  AttentionOptions options{.causal = true};
  options.input = random({1, kTokens, 4}, 5);
  options.weights = weights_of(mechanism, kTokens, 4);
  fill(options.weights[0], 0.0);
  for (std::int64_t j = 0; j < kTokens; j += kChunk)  // one token of each chunk is much longer than the others
    for (std::int64_t c = 0; c < kRow; ++c) k_.value().data<double>()[j * kRow + c] *= 9.0;
  using Row = std::vector<double>;
  const auto row_of = [&](const Var& x, std::int64_t j) {
    const double* from = x.value().data<double>() + j * kRow;
    return Row(from, from + kRow);
  };
  const auto normal = [](Row x) {
    double mean = 0.0, square = 0.0;
    for (const double value : x) mean += value / kRow;
    for (const double value : x) square += (value - mean) * (value - mean) / kRow;
    for (double& value : x) value = (value - mean) / std::sqrt(square + 1e-5);
    return x;
  };
  const auto slot = [&](const Var& x, std::int64_t chunk) {
    Row sum(kRow, 0.0);
    for (std::int64_t j = chunk * kChunk; j < (chunk + 1) * kChunk; ++j)
      for (std::size_t c = 0; c < kRow; ++c) sum[c] += row_of(x, j)[c] / kChunk;
    return normal(sum);
  };
  const std::vector<double> got = run(mechanism, options);
  for (std::int64_t i = 0; i < kTokens; ++i) {
    std::vector<Row> keys, values;
    for (std::int64_t g = 0; g < i / kChunk; ++g) keys.push_back(slot(k_, g)), values.push_back(slot(v_, g));
    for (std::int64_t j = std::max<std::int64_t>(0, i - kWindow + 1); j <= i; ++j)
      keys.push_back(normal(row_of(k_, j))), values.push_back(normal(row_of(v_, j)));
    const Row q = row_of(q_, i);
    for (std::size_t h = 0; h < kHeads; ++h) {
      Row want(kWidth, 0.0);
      double sum = 0.0;
      for (std::size_t j = 0; j < keys.size(); ++j) {
        double score = 0.0;
        for (std::size_t c = h * kWidth; c < (h + 1) * kWidth; ++c) score += q[c] * keys[j][c] / std::sqrt(8.0);
        sum += std::exp(score);
        for (std::size_t c = 0; c < kWidth; ++c) want[c] += std::exp(score) * values[j][h * kWidth + c];
      }
      for (std::size_t c = 0; c < kWidth; ++c)
        ASSERT_NEAR(got[static_cast<std::size_t>(i) * kRow + h * kWidth + c], want[c] / sum, 1e-12) << "row " << i;
    }
  }
}

TEST_F(LowRank, LaraWithOneLandmarkGivesAllQueriesTheSame) {
  for (const char* mechanism : {"lara:landmarks=1", "lara:landmarks=1,proposals=balance"})
    EXPECT_LT(largest_spread(run_fresh(mechanism)), 1e-13) << mechanism;
  EXPECT_GT(largest_spread(run_fresh("lara:landmarks=4")), 1e-3);
}

TEST_F(LowRank, LaraReturnsConstantValues) {
  fill(v_, -0.75);
  for (const char* mechanism : {"lara", "lara:landmarks=4", "lara:proposals=biased,landmarks=3", "lara:pool=plain"})
    for (const double x : run_fresh(mechanism)) EXPECT_NEAR(x, -0.75, 1e-12) << mechanism;
}

TEST_F(LowRank, LaraSamplesInTraining) {
  AttentionOptions options;
  options.weights = weights_of("lara:landmarks=4");
  const auto trained = [&](std::uint64_t stream) {
    Tape tape(context_, {.record = false, .training = true, .stream = stream});
    return attention(tape, q_, k_, v_, Mechanism::parse("lara:landmarks=4"), options)
        .output.value()
        .to_vector<double>();
  };
  EXPECT_EQ(run("lara:landmarks=4", options), run("lara:landmarks=4", options));
  EXPECT_EQ(trained(5), trained(5));
  EXPECT_GT(largest_difference(trained(5), trained(6)), 1e-3);
}

TEST_F(LowRank, BadSettingsAreRefused) {
  for (const char* mechanism :
       {"linformer:slots=0", "nystrom:landmarks=0", "nystrom:steps=0", "skyformer:landmarks=1", "lara:landmarks=0",
        "long-short:window=0", "flash-gau:chunk=0", "polysketch:features=0", "s4d:states=1", "lara:proposals=best"})
    EXPECT_NE(error_of([&] { Mechanism::parse(mechanism); }), "no error") << mechanism;
}

}  // namespace
}  // namespace fovea
