// Features that are made where the engine needs them: what features that are tensors give, in less memory.

#include <gtest/gtest.h>

#include "mechanisms/watch.h"
#include "scan/feature_source.h"
#include "scan/launch.h"
#include "support/expect_error.h"
#include "support/tensors.h"

namespace fovea::testing {
namespace {

struct Sizes {
  std::int64_t n = 70, heads = 4, kv_heads = 2, d_k = 6, d_v = 5;
};

class FeatureScan : public ::testing::Test {
 protected:
  // Output and gradients of q, k and v.
  std::vector<Tensor> run(const std::string& mechanism, const Sizes& sizes, const Sequences& sequences = {}) {
    const auto leaf = [&](std::int64_t heads, std::int64_t d, std::uint64_t seed) {
      return Var::leaf(random(context_, {1, sizes.n, heads, d}, seed, DType::f32));
    };
    const Var q = leaf(sizes.heads, sizes.d_k, 1), k = leaf(sizes.kv_heads, sizes.d_k, 2),
              v = leaf(sizes.kv_heads, sizes.d_v, 3);
    const Mechanism parsed = Mechanism::parse(mechanism);
    AttentionOptions options;
    options.queries = sequences;
    options.weights = make_weights(
        context_, parsed, {.heads = sizes.heads, .kv_heads = sizes.kv_heads, .d_k = sizes.d_k, .d_v = sizes.d_v},
        DType::f32);
    Tape tape(context_);
    const Var o = attention(tape, q, k, v, parsed, options).output;
    tape.backward(o, random(context_, o.shape(), 4, DType::f32));
    return {o.value(), q.grad(), k.grad(), v.grad()};
  }
  // A watch is shown features, so that they are tensors.
  std::vector<Tensor> run_watched(const std::string& mechanism, const Sizes& sizes, const Sequences& sequences = {}) {
    AttentionWatch watch;
    return run(mechanism, sizes, sequences);
  }

  Context context_ = poisoned();
};

TEST_F(FeatureScan, GivesWhatFeaturesAsTensorsGive) {
  const std::vector<Sequences> layouts{{}, {{}, {0, 1, 33, 70}}, {{}, {0, 0, 64, 70}}};
  on_every_isa([&](Isa) {
    for (const char* mechanism : {"performer:features=32", "performer:features=21", "performer:kernel=relu"})
      for (const Sequences& layout : layouts) {
        const std::vector<Tensor> got = run(mechanism, {}, layout), want = run_watched(mechanism, {}, layout);
        for (std::size_t i = 0; i < want.size(); ++i)
          EXPECT_LT(relative_error(got[i], want[i]), 2e-6) << mechanism << " " << i;
      }
  });
}

TEST_F(FeatureScan, LeavesRowsBehindTheLastSequenceAlone) {
  for (const Tensor& x : run("performer:features=32", {}, {{50}, {}}))
    for (const double value : x.slice(1, 50, 70).to_vector<double>()) EXPECT_EQ(value, 0.0);
}

// Features of q and k are kept once, for backward; their gradients never are. Without backward there are none.
TEST_F(FeatureScan, HoldsNoGradientsOfFeatures) {
  const Sizes sizes{.n = 4096, .heads = 2, .kv_heads = 2, .d_k = 16, .d_v = 16};
  const std::size_t features = 2 * 4096 * 2 * 256 * sizeof(float);  // of q and of k
  const auto peak_of = [&](const auto& body) {
    context_.allocator()->reset_peaks();
    const std::size_t before = context_.allocator()->total().now;
    body();
    return context_.allocator()->total().peak - before;
  };
  EXPECT_LT(peak_of([&] { run("performer", sizes); }), features + features / 2);
  EXPECT_GT(peak_of([&] { run_watched("performer", sizes); }), 2 * features);
  const Tensor x = random(context_, {1, sizes.n, sizes.heads, sizes.d_k}, 1, DType::f32);
  AttentionOptions options;
  options.weights = make_weights(context_, Mechanism("performer"),
                                 {.heads = sizes.heads, .kv_heads = sizes.heads, .d_k = 16, .d_v = 16}, DType::f32);
  Tape tape(context_, {.record = false});
  EXPECT_LT(peak_of([&] { attention(tape, x, x, x, Mechanism("performer"), options); }), features / 4);
}

// Features of one.
class Ones final : public scan::FeatureSource {
 public:
  std::size_t room_bytes() const override { return 0; }
  void fetch(const Block&, Prefetch&) const override {}
  Matrix<const float> make(const Block& block, Matrix<float> to, Room, Prefetch*) const override {
    std::fill(to.row(0), to.row(block.rows), 1.0F);
    return to;
  }
  void pull(const Block&, Matrix<const float>, Matrix<float>, Room, Prefetch*) const override {}
};

TEST_F(FeatureScan, TheEngineSaysWhereASourceDoesNotFit) {
  const Ones source;
  const std::vector<scan::Piece> pieces{{0, 0, 3, 0, 3}};
  const Tensor v = random(context_, {1, 3, 1, 2}, 1, DType::f32), o = Tensor::empty(context_, v.shape(), DType::f32);
  scan::Problem problem{.heads = 1, .kv_heads = 1, .d_k = 4, .d_v = 2, .pieces = pieces};
  const auto forward = [&](const scan::Sources& sources) {
    scan::forward(context_, problem, {{{}, {}, v, {}, {}}, o, {}, {}, {}}, sources);
  };
  forward({&source, &source});
  const std::vector<double> x = v.to_vector<double>();
  EXPECT_NEAR(o.to_vector<double>()[0], 4 * (x[0] + x[2] + x[4]), 1e-5);
  EXPECT_ERROR(forward({&source, nullptr}), ErrorCode::usage, "only one of q and k has a source of features", "", "");
  problem.causal = true;
  EXPECT_ERROR(forward({&source, &source}), ErrorCode::unsupported, "a source of features in causal order", "", "");
}

}  // namespace
}  // namespace fovea::testing
