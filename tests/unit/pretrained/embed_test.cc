#include <gtest/gtest.h>

#include <cmath>

#include "models/network.h"
#include "support/expect_error.h"
#include "support/pretrained.h"

namespace fovea::pretrained_test {
namespace {

constexpr std::int64_t kBytes = 256;

ModelConfig byte_encoder() {
  ModelConfig config = small("encoder-mean");
  config.vocabulary = kBytes;
  config.unit_features = false;
  return config;
}

std::vector<std::string_view> texts() { return {"one", "", "a longer text than the model reads", "two", "three"}; }

TEST(Embed, IsTheModelOnEachTextAlone) {
  for (const int threads : {1, 3}) {
    Context context({.threads = threads, .memory = {.poison = true}});
    const Model model = drawn(context, byte_encoder());
    const auto all = texts();
    std::int64_t last = 0;
    const Tensor vectors =
        embed(context, model, Tokenizer::bytes(), all,
              {.batch_tokens = 7, .progress = [&](std::int64_t done, std::int64_t) { last = done; }});
    EXPECT_EQ(last, std::ssize(all));
    EXPECT_EQ(vectors.shape(), (Shape{5, model.config().width}));
    for (std::size_t i = 0; i < all.size(); ++i) {
      std::vector<std::int32_t> ids(all[i].begin(), all[i].end());
      ids.resize(std::min<std::size_t>(ids.size(), static_cast<std::size_t>(model.config().max_length)));
      if (ids.empty()) ids = {0};
      Tape tape(context, {.record = false});
      const Input input = packed_rows<std::int32_t>(context, {{ids}});
      const auto expected = model.network().features(tape, input).value().to_vector<float>();
      const auto got = vectors.select(0, static_cast<std::int64_t>(i)).to_vector<float>();
      for (std::size_t c = 0; c < got.size(); ++c) EXPECT_NEAR(got[c], expected[c], 1e-6);
    }
  }
}

TEST(Embed, NormalizesAndTakesNothing) {
  Context context({.threads = 1});
  const Model model = drawn(context, byte_encoder());
  const auto values =
      embed(context, model, Tokenizer::bytes(), texts(), {.normalize = true}).select(0, 2).to_vector<double>();
  double square = 0.0;
  for (const double value : values) square += value * value;
  EXPECT_NEAR(square, 1.0, 1e-6);
  EXPECT_EQ(embed(context, model, Tokenizer::bytes(), {}).shape(), (Shape{0, model.config().width}));
}

TEST(Embed, UnitFeaturesHaveLengthOne) {
  Context context({.threads = 1});
  ModelConfig config = byte_encoder();
  config.unit_features = true;
  const auto values =
      embed(context, drawn(context, config), Tokenizer::bytes(), texts()).select(0, 0).to_vector<double>();
  double square = 0.0;
  for (const double value : values) square += value * value;
  EXPECT_NEAR(square, 1.0, 1e-6);
}

// A folder as transformers and sentence-transformers have written it, and the vectors these give.
TEST(Embed, IsWhatSentenceTransformersGives) {
  Context context({.threads = 2});
  const Imported encoder = import_model(context, FOVEA_FIXTURES "/pretrained/tiny-encoder");
  ASSERT_TRUE(encoder.tokenizer);
  const std::vector<std::string_view> texts = {"The cat sits on the mat", "a small dog sleeps",
                                               "birds run in the garden, under a big old tree and on and on"};
  const float expected[3][8] = {
      {0.0325846f, 0.4015711f, 0.2792471f, -0.5004016f, 0.1497743f, 0.0330961f, -0.0464081f, 0.6954256f},
      {0.0844988f, 0.4416718f, 0.2490786f, -0.4632296f, 0.1295668f, 0.2461296f, -0.0436184f, 0.6647512f},
      {0.1112762f, 0.4743157f, 0.3167440f, -0.4614360f, 0.0989177f, -0.0496506f, 0.1369765f, 0.6468228f}};
  const auto values = embed(context, encoder.model, *encoder.tokenizer, texts).to_vector<float>();
  ASSERT_EQ(values.size(), 24u);
  for (std::size_t i = 0; i < 24; ++i) EXPECT_NEAR(values[i], expected[i / 8][i % 8], 1e-5) << i;
  EXPECT_EQ(encoder.left_out, (std::vector<std::string>{"pooler.dense.bias", "pooler.dense.weight"}));
}

TEST(Neighbours, AreSortedByCosine) {
  const Context context({.threads = 2});
  const std::vector<float> values = {1, 0, 2, 2, 0, 3, -1, 0, 0, 0, 5, 1};
  const auto near = neighbours(context, Tensor::from<float>(context, {6, 2}, values), 2);
  ASSERT_EQ(near.size(), 6u);
  ASSERT_EQ(near[0].size(), 2u);
  EXPECT_EQ(near[0][0].row, 5);
  EXPECT_NEAR(near[0][0].cosine, 5 / std::sqrt(26.0), 1e-6);
  EXPECT_EQ(near[0][1].row, 1);
  EXPECT_EQ(near[4][0].row, 0);  // a vector of zeros is as near to all
  EXPECT_EQ(near[4][0].cosine, 0.0f);
  EXPECT_EQ(neighbours(context, Tensor::from<float>(context, {6, 2}, values), 99)[0].size(), 5u);
  EXPECT_TRUE(neighbours(context, Tensor::zeros(context, {0, 2}), 3).empty());
  EXPECT_ERROR(neighbours(context, Tensor::zeros(context, {2}), 3), ErrorCode::shape, "(n, d)", "vectors", "");
}

TEST(Encoder, GivesRowsAndHasNoLoss) {
  Context context({.threads = 1});
  const Model model = drawn(context, small("encoder"));
  Tape tape(context, {.record = false});
  const Batch batch = families::random_batch(context, model.config(), 3);
  EXPECT_EQ(model.forward(tape, batch).shape(), (Shape{1, 16, model.config().width}));
  EXPECT_EQ(model.network().features(tape, batch.input).shape(), (Shape{3, model.config().width}));
  EXPECT_ERROR(model.loss(tape, batch), ErrorCode::unsupported, "nothing to be trained for", "task", "classify");
}

}  // namespace
}  // namespace fovea::pretrained_test
