#include <gtest/gtest.h>

#include <cmath>

#include "models/network.h"
#include "support/drawn_parameters.h"
#include "support/expect_error.h"
#include "support/families.h"
#include "support/tensors.h"

namespace fovea {
namespace {

using Matrix = std::vector<std::vector<double>>;

Matrix matrix_of(const Var& x) {
  const auto values = x.value().to_vector<double>();
  Matrix out(static_cast<std::size_t>(x.dim(0)));
  for (std::size_t i = 0; i < values.size(); ++i) out[i / static_cast<std::size_t>(x.dim(1))].push_back(values[i]);
  return out;
}

Matrix turned(const Matrix& m) {
  Matrix out(m[0].size(), std::vector<double>(m.size()));
  for (std::size_t i = 0; i < m.size(); ++i)
    for (std::size_t j = 0; j < m[i].size(); ++j) out[j][i] = m[i][j];
  return out;
}

// Of asking each row for its own column: the cross-entropy, and its derivative by a factor on all logits.
struct Asked {
  double loss = 0.0, slope = 0.0;
};
Asked ask_rows(const Matrix& logits) {
  Asked asked;
  const auto count = static_cast<double>(logits.size());
  for (std::size_t i = 0; i < logits.size(); ++i) {
    double sum = 0.0, expected = 0.0;
    for (const double z : logits[i]) sum += std::exp(z), expected += z * std::exp(z);
    asked.loss += (std::log(sum) - logits[i][i]) / count;
    asked.slope += (expected / sum - logits[i][i]) / count;
  }
  return asked;
}

class ImageTextTest : public ::testing::Test {
 protected:
  // With weights that matter.
  Model make(const ModelConfig& config) {
    Model model(context_, config);
    Random draws(3, 3);
    for (const Parameter& p : model.parameters())
      if (p.name != "temperature") testing::stir(p, draws);
    return model;
  }
  static const Parameter& find(const Model& model, std::string_view name) {
    for (const Parameter& p : model.parameters())
      if (p.name == name) return p;
    fail(ErrorCode::usage, "no such parameter", std::string(name));
  }
  double loss_of(const Model& model, const Batch& batch) {
    Tape tape(context_, {.record = false});
    return model.loss(tape, batch).value.value().item();
  }

  Context context_ = testing::poisoned();
};

TEST_F(ImageTextTest, LossIsTheMeanOfBothDirections) {
  const ModelConfig config = families::family("clip");
  const Model model = make(config);
  const Batch batch = families::random_batch(context_, config, 1);
  Tape tape(context_);
  const Loss loss = model.loss(tape, batch);
  const Matrix logits = matrix_of(model.forward(tape, batch));
  const Asked rows = ask_rows(logits), columns = ask_rows(turned(logits));
  EXPECT_NEAR(loss.value.value().item(), 0.5 * (rows.loss + columns.loss), 1e-12);
  EXPECT_GT(std::abs(rows.loss - columns.loss), 1e-6);
  EXPECT_EQ(loss.asked.item(), 3);
  double correct = 0.0;
  for (std::size_t i = 0; i < 3; ++i) correct += *std::max_element(logits[i].begin(), logits[i].end()) == logits[i][i];
  EXPECT_EQ(loss.correct.item(), correct);
  tape.backward(loss.value);
  EXPECT_NEAR(find(model, "temperature").var.grad().item(), 0.5 * (rows.slope + columns.slope), 1e-12);
}

TEST_F(ImageTextTest, OnePairHasNothingToBeMistakenFor) {
  const ModelConfig config = families::family("clip");
  const Model model = make(config);
  Batch batch = families::random_batch(context_, config, 1);
  batch.input.values = batch.input.values.slice(0, 0, 1);
  Random random(1, 1);
  batch.second = families::random_input(context_, random, {4});
  EXPECT_EQ(loss_of(model, batch), 0.0);
}

TEST_F(ImageTextTest, SimilaritiesAreCosinesTimesALimitedFactor) {
  const ModelConfig config = families::family("clip");
  const Model model = make(config);
  const Batch batch = families::random_batch(context_, config, 1);
  Tape tape(context_, {.record = false});
  const Matrix pictures = matrix_of(model.network().features(tape, batch.input));
  const Matrix texts = matrix_of(model.network().features(tape, batch.second));
  for (const auto& [start, factor] : {std::pair(std::log(1.0 / 0.07), 1.0 / 0.07), std::pair(20.0, 100.0)}) {
    EXPECT_TRUE(factor == 100.0 || find(model, "temperature").var.value().item() == start);
    find(model, "temperature").var.value().fill(start);
    const Matrix logits = matrix_of(model.forward(tape, batch));
    for (std::size_t p = 0; p < 3; ++p)
      for (std::size_t t = 0; t < 3; ++t) {
        double dot = 0.0, length = 0.0;
        for (std::size_t c = 0; c < 5; ++c) dot += pictures[p][c] * texts[t][c], length += texts[t][c] * texts[t][c];
        EXPECT_NEAR(length, 1.0, 1e-12);
        EXPECT_NEAR(logits[p][t], factor * dot, 1e-10);
      }
  }
}

// The gate starts closed: no text sees its picture. Opened, the loss is that of telling pairs by their odds.
TEST_F(ImageTextTest, CrossModalTextsSeeTheirPictureThroughAGate) {
  const ModelConfig config = families::family("clip-cross");
  const Model model = make(config);
  const Batch batch = families::random_batch(context_, config, 1);
  Tape tape(context_, {.record = false});
  const char* gates[] = {"text.layers.0.cross.gate", "text.layers.1.cross.gate"};
  for (const char* gate : gates) find(model, gate).var.value().fill(0.0);
  Matrix odds = matrix_of(model.forward(tape, batch));
  EXPECT_EQ(odds[0], odds[1]);
  EXPECT_EQ(odds[0], odds[2]);
  for (const char* gate : gates) find(model, gate).var.value().fill(2.0);
  odds = matrix_of(model.forward(tape, batch));
  EXPECT_GT(std::abs(odds[0][0] - odds[1][0]), 1e-3);
  double expected = 0.0;
  for (std::size_t t = 0; t < 3; ++t)
    expected += std::log1p(std::exp(-odds[t][t])) + std::log1p(std::exp(odds[(t + 1) % 3][t]));
  const Loss loss = model.loss(tape, batch);
  EXPECT_NEAR(loss.value.value().item(), expected / 6, 1e-12);
  EXPECT_EQ(loss.asked.item(), 6);
  Input both = batch.second;
  both.values = batch.input.values;
  EXPECT_EQ(model.network().features(tape, both).shape(), (Shape{3, 8}));
  EXPECT_EQ(model.network().features(tape, batch.input).shape(), (Shape{3, 12}));
}

TEST_F(ImageTextTest, PaddedTextsAreThoseThatWerePacked) {
  for (const char* name : {"clip", "clip-cross"}) {
    const ModelConfig config = families::family(name);
    const Model model = make(config);
    Batch batch = families::random_batch(context_, config, 1);
    Tape tape(context_, {.record = false});
    const Tensor expected = model.forward(tape, batch).value();
    const Input texts = batch.second;
    batch.second.ids = Tensor::zeros(context_, {3, 9}, DType::i32);
    batch.second.rows = {.lengths = {4, 1, 8}};
    for (std::int64_t s = 0; s < 3; ++s) {
      const std::int64_t begin = texts.rows.cu_seqlens[static_cast<std::size_t>(s)];
      const std::int64_t count = batch.second.rows.lengths[static_cast<std::size_t>(s)];
      batch.second.ids.select(0, s).slice(0, 0, count).copy_from(texts.ids.select(0, 0).slice(0, begin, begin + count));
    }
    EXPECT_LT(testing::relative_error(model.forward(tape, batch).value(), expected), 1e-12) << name;
  }
}

TEST_F(ImageTextTest, HasTheSameBitsOnAnyNumberOfThreads) {
  for (const char* name : {"clip", "clip-cross"}) {
    std::vector<Tensor> kept;
    for (const int threads : {1, 2, 3}) {
      Context context({.threads = threads, .seed = 5});
      const ModelConfig config = families::family(name);
      const Model model(context, config);
      Tape tape(context, {.record = false});
      kept.push_back(model.forward(tape, families::random_batch(context, config, 1)).value().clone(context));
      EXPECT_TRUE(testing::same_bits(kept[0], kept.back())) << name << " on " << threads;
    }
  }
}

TEST_F(ImageTextTest, RefusesWhatDoesNotFit) {
  for (const char* name : {"clip", "clip-cross"}) {
    const ModelConfig config = families::family(name);
    const Model model = make(config);
    Batch batch = families::random_batch(context_, config, 1);
    batch.input.values = batch.input.values.slice(0, 0, 2);
    EXPECT_ERROR(loss_of(model, batch), ErrorCode::shape, "2 pictures, but 3 texts", "model.batch.second", "one text");
  }
  ModelConfig config = families::family("clip");
  config.pooling = Pooling::cls;
  EXPECT_ERROR(config.check(), ErrorCode::usage, "has seen nothing", "pooling", "last");
  config = families::family("clip");
  config.image_stack->cross = {"softmax"};
  EXPECT_ERROR(config.check(), ErrorCode::usage, "nothing else", "image_stack.cross", "cross");
  config = families::family("clip-cross");
  config.placement = NormPlacement::post;
  EXPECT_ERROR(config.check(), ErrorCode::usage, "gate", "gated_cross", "pre");
  config = families::family("transformer");
  config.cross = {"softmax"};
  EXPECT_ERROR(config.check(), ErrorCode::usage, "nothing else", "cross", "decoder");
}

}  // namespace
}  // namespace fovea
