#include <gtest/gtest.h>

#include <cmath>

#include "fovea/inspect.h"
#include "support/families.h"
#include "support/tensors.h"

namespace fovea {
namespace {

std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }

ModelConfig small(const std::string& family) { return families::family(family, DType::f32); }

TEST(Inspect, MeasuresEveryLayerOfEveryFamily) {
  for (const std::string& family : families::names()) {
    SCOPED_TRACE(family);
    Context context = testing::poisoned();
    const ModelConfig config = small(family);
    const Model model(context, config);
    const InspectRecord record = inspect(context, model, families::random_batch(context, model.config(), 4));
    EXPECT_GE(record.layers.size(), config.layers.size());
    for (const LayerRecord& layer : record.layers) {
      EXPECT_TRUE(layer.place.starts_with("model")) << layer.place;
      EXPECT_EQ(layer.heads.empty(), layer.map.kind == MapKind::none) << layer.place;
      for (const HeadRecord& head : layer.heads) {
        EXPECT_EQ(std::ssize(head.entropy), layer.n_q);
        EXPECT_EQ(std::ssize(head.received), layer.n_k);
        EXPECT_EQ(head.bad_rows, 0);
      }
    }
  }
}

TEST(Inspect, TellsCrossAttentionAndTheSequence) {
  Context context = testing::poisoned();
  const Model model(context, small("seq2seq"));
  const Batch batch = families::random_batch(context, model.config(), 4);
  const InspectRecord record = inspect(context, model, batch, {.sequence = 1});
  std::size_t cross = 0;
  for (const LayerRecord& layer : record.layers) {
    cross += layer.cross ? 1 : 0;
    EXPECT_EQ(layer.n_q, layer.causal || layer.cross ? 6 : 9) << layer.place;
    EXPECT_EQ(layer.n_k, layer.causal ? 6 : 9) << layer.place;
  }
  EXPECT_EQ(cross, model.config().decoder->layers.size());
}

// What a sequence reads of itself does not depend on its company.
TEST(Inspect, ASequenceIsTheSameAlone) {
  Context context = testing::poisoned();
  const Model model(context, small("transformer"));
  const Batch batch = families::random_batch(context, model.config(), 4);
  const InspectRecord record = inspect(context, model, batch, {.sequence = 1});
  Batch alone = batch;
  alone.input.ids = batch.input.ids.slice(1, 5, 14).contiguous(context);
  alone.input.rows = {.lengths = {}, .cu_seqlens = {0, 9}};
  alone.examples = {0};
  const InspectRecord single = inspect(context, model, alone);
  ASSERT_EQ(record.layers.size(), single.layers.size());
  for (std::size_t l = 0; l < record.layers.size(); ++l)
    for (std::size_t h = 0; h < record.layers[l].heads.size(); ++h)
      for (std::size_t i = 0; i < 9; ++i)
        EXPECT_NEAR(record.layers[l].heads[h].entropy[i], single.layers[l].heads[h].entropy[i], 1e-4);
}

TEST(Inspect, TakesTheLayersThatAreAskedFor) {
  Context context = testing::poisoned();
  const Model model(context, small("transformer"));
  const Batch batch = families::random_batch(context, model.config(), 4);
  const InspectRecord all = inspect(context, model, batch), one = inspect(context, model, batch, {.layers = {1}});
  ASSERT_EQ(one.layers.size(), 1u);
  EXPECT_EQ(one.layers[0].place, all.layers[1].place);
  EXPECT_EQ(one.layers[0].heads[0].entropy, all.layers[1].heads[0].entropy);
  EXPECT_THROW(inspect(context, model, batch, {.layers = {7}}), Error);
  EXPECT_THROW(inspect(context, model, batch, {.sequence = 3}), Error);
}

TEST(Inspect, GivesExactRectanglesOfModels) {
  Context context = testing::poisoned();
  const Model model(context, small("transformer"));
  const Batch batch = families::random_batch(context, model.config(), 4);
  const InspectRecord record = inspect(context, model, batch, {.sequence = 1});
  const MapRequest requests[] = {{.layer = 1, .head = 1, .row_end = 9, .key_end = 9},
                                 {.layer = 0, .head = 0, .row_begin = 2, .row_end = 4, .key_begin = 3, .key_end = 9}};
  const std::vector<MapRectangle> maps = map_rectangles(context, model, batch, requests, 1);
  ASSERT_EQ(maps.size(), 2u);
  const MapLevel& whole = record.layers[1].heads[1].pyramid[0];
  ASSERT_EQ(maps[0].weights.size(), whole.mean.size());
  for (std::size_t i = 0; i < whole.mean.size(); ++i) EXPECT_NEAR(maps[0].weights[i], whole.mean[i], 1e-6);
  const MapLevel& first = record.layers[0].heads[0].pyramid[0];
  for (std::int64_t r = 0; r < 2; ++r)
    for (std::int64_t c = 0; c < 6; ++c)
      EXPECT_NEAR(maps[1].weights[at(r * 6 + c)], first.mean[at((r + 2) * 9 + c + 3)], 1e-6);
}

TEST(Rollout, HasRowsThatSumToOneAndStaysCausal) {
  Context context = testing::poisoned();
  ModelConfig config = small("gpt");
  const Model model(context, config);
  const InspectRecord record =
      inspect(context, model, families::random_batch(context, model.config(), 4), {.sequence = 1, .rollout = true});
  for (const LayerRecord& layer : record.layers) {
    ASSERT_EQ(layer.rollout.size(), 81u);
    for (std::int64_t i = 0; i < 9; ++i) {
      double sum = 0.0;
      for (std::int64_t j = 0; j < 9; ++j) {
        sum += layer.rollout[at(i * 9 + j)];
        if (j > i) {
          EXPECT_EQ(layer.rollout[at(i * 9 + j)], 0.0f);
        }
      }
      EXPECT_NEAR(sum, 1.0, 1e-5);
    }
  }
  ASSERT_TRUE(record.rollout.has_value());  // and as a head like others
  const HeadRecord& all = record.rollout->heads.at(0);
  EXPECT_TRUE(record.rollout->causal);
  for (std::size_t i = 0; i < 81; ++i) EXPECT_NEAR(all.pyramid[0].mean[i], record.layers.back().rollout[i], 1e-6);
  // The first layer by hand: half the mean of its heads, half itself.
  const LayerRecord& first = record.layers[0];
  for (std::size_t at_pair = 0; at_pair < 81; ++at_pair) {
    double mean = 0.0;
    for (const HeadRecord& head : first.heads)
      mean += head.pyramid[0].mean[at_pair] / static_cast<double>(first.heads.size());
    EXPECT_NEAR(first.rollout[at_pair], (mean + (at_pair % 10 == 0 ? 1.0 : 0.0)) / 2.0, 1e-5);
  }
}

TEST(Rollout, OfAnEncoderEndsWhereTheDecoderBegins) {
  Context context = testing::poisoned();
  const Model model(context, small("seq2seq"));
  const InspectRecord record =
      inspect(context, model, families::random_batch(context, model.config(), 4), {.sequence = 1, .rollout = true});
  ASSERT_TRUE(record.rollout.has_value());
  EXPECT_EQ(record.rollout->n_q, 9);
  for (const LayerRecord& layer : record.layers)
    EXPECT_EQ(layer.rollout.empty(), layer.place.starts_with("model.decoder")) << layer.place;
}

TEST(TokenNotes, AreThoseOfWhatALayerReads) {
  Context context = testing::poisoned();
  const Model model(context, small("seq2seq"));
  InspectOptions options{.sequence = 1};
  options.notes.delimiter = {1, 0, 0, 0, 0, 0, 0, 0, 1};
  options.second_notes.delimiter = {0, 0, 0, 1, 0, 0};
  for (const LayerRecord& layer :
       inspect(context, model, families::random_batch(context, model.config(), 4), options).layers) {
    const HeadRecord& head = layer.heads[0];
    const double all = static_cast<double>(layer.n_q);
    const bool own = layer.place.starts_with("model.decoder") && !layer.cross;
    const double mass = own ? head.received[3] : head.received[0] + head.received[8];
    EXPECT_NEAR(head.verdict.delimiters.share, mass / all, 1e-5) << layer.place;
  }
}

}  // namespace
}  // namespace fovea
