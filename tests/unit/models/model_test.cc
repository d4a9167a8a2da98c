#include "fovea/model.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "data/batches.h"
#include "fovea/optim.h"
#include "support/parameter_gradients.h"
#include "support/tiny.h"

namespace fovea {
namespace {

using tiny::without_dropout;

Context make_context(int threads = 2) { return Context({.threads = threads, .seed = 5, .memory = {.poison = true}}); }

enum class BatchLayout : std::uint8_t { packed, padded };

// The same sequences, each behind the other or each in a row of its own.
Input padded(const Context& context, const Input& packed) {
  const auto& ends = packed.rows.cu_seqlens;
  Input input;
  std::int32_t longest = 0;
  for (std::size_t s = 0; s + 1 < ends.size(); ++s) {
    input.rows.lengths.push_back(ends[s + 1] - ends[s]);
    longest = std::max(longest, input.rows.lengths.back());
  }
  input.ids = Tensor::zeros(context, {std::ssize(input.rows.lengths), longest}, DType::i32);
  for (std::int64_t s = 0; s + 1 < std::ssize(ends); ++s)
    std::copy(packed.ids.data<std::int32_t>() + ends[static_cast<std::size_t>(s)],
              packed.ids.data<std::int32_t>() + ends[static_cast<std::size_t>(s) + 1],
              input.ids.data<std::int32_t>() + s * longest);
  return input;
}

Batch batch_of(const Context& context, const std::vector<Example>& examples, BatchLayout layout) {
  std::vector<std::int64_t> all(examples.size());
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = static_cast<std::int64_t>(i);
  Batch batch = labelled_split(examples)->batch(context, all, 0);
  if (layout == BatchLayout::padded) batch.input = padded(context, batch.input);
  return batch;
}

std::vector<double> logits_of(Context& context, const Model& model, const Batch& batch) {
  Tape tape(context, {.record = false});
  return model.forward(tape, batch.input.ids, batch.input.rows).value().to_vector<double>();
}

double loss_of(Context& context, const Model& model, const Batch& batch, bool training = false) {
  Tape tape(context, {.record = false, .training = training, .stream = 900});
  return cross_entropy(tape, model.forward(tape, batch.input.ids, batch.input.rows), batch.targets).value().item();
}

using Gradients = std::map<std::string, std::vector<float>>;

Gradients gradients_of(Context& context, const Model& model, const Batch& batch) {
  Tape tape(context, {.record = true, .training = true, .stream = 900});
  tape.backward(cross_entropy(tape, model.forward(tape, batch.input.ids, batch.input.rows), batch.targets));
  Gradients gradients;
  for (const Parameter& p : model.parameters()) {
    EXPECT_TRUE(p.var.grad().defined()) << p.name;
    gradients[p.name] = p.var.grad().to_vector<float>();
    p.var.slot()->grad = Tensor();
  }
  return gradients;
}

class EveryPreset : public ::testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Presets, EveryPreset,
                         ::testing::Values("transformer", "transnormer-t1", "transnormer-t2", "linear"));

// Tokens and positions; per layer two norms (256), q, k, v (64 x 192 + 192), output (64 x 64 + 64) and the
// feed-forward layers; final norm; classifier 64 -> 128 -> 10.
TEST(Parameters, AreAsManyAsCountedByHand) {
  Context context = make_context();
  const std::int64_t frame = 16 * 64 + 2000 * 64 + 2 * (256 + 12480 + 4160) + 128 + 8320 + 1290;
  const std::int64_t ffn = 64 * 128 + 128 + 128 * 64 + 64, glu = 64 * 170 + 170 + 85 * 64 + 64;
  EXPECT_EQ(ffn, 16576);
  EXPECT_EQ(glu, 16554);
  for (const auto& [name, expected] :
       {std::pair("transformer", frame + 2 * ffn), std::pair("transnormer-t1", frame + 2 * glu),
        std::pair("transnormer-t2", frame + 2 * glu)}) {
    ModelConfig config = tiny::config(name);
    config.max_length = 2000;
    const std::int64_t count = Model(context, config).parameter_count();
    std::printf("%-16s %ld parameters\n", name, static_cast<long>(count));
    EXPECT_EQ(count, expected) << name;
  }
}

TEST(Parameters, DecayOnlyMatricesThatAreNotEmbeddings) {
  Context context = make_context();
  const Model model(context, tiny::config("transformer"));
  for (const Parameter& p : model.parameters()) EXPECT_EQ(p.decay, p.name.ends_with(".weight")) << p.name;
}

TEST(Parameters, StartFromTheirNamesAlone) {
  Context one = make_context(1), two = make_context(2);
  const Model small(one, tiny::config("norm*1")), large(two, tiny::config("norm*3"));
  std::map<std::string, std::vector<float>> by_name;
  for (const Parameter& p : large.parameters()) by_name[p.name] = p.var.value().to_vector<float>();
  for (const Parameter& p : small.parameters())
    EXPECT_EQ(p.var.value().to_vector<float>(), by_name.at(p.name)) << p.name;
  EXPECT_NE(by_name.at("layers.0.attention.qkv.weight"), by_name.at("layers.1.attention.qkv.weight"));
}

TEST(Parameters, HaveTheSpreadOfTheSpecification) {
  Context context = make_context();
  const Model model(context, tiny::config("transformer"));
  for (const Parameter& p : model.parameters()) {
    double sum = 0.0, squares = 0.0, most = 0.0;
    for (const double v : p.var.value().to_vector<double>()) {
      sum += v;
      squares += v * v;
      most = std::max(most, std::abs(v));
    }
    const auto n = static_cast<double>(p.var.value().numel());
    const double deviation = std::sqrt(squares / n);
    if (p.name.starts_with("embedding")) {
      EXPECT_NEAR(deviation, 0.02, 0.002) << p.name;
    } else if (p.name.ends_with("qkv.weight")) {
      EXPECT_NEAR(deviation, std::sqrt(2.0 / 128), 0.003);  // fans 64 and 64, not 64 and 192
      EXPECT_LE(most, std::sqrt(6.0 / 128));
    } else if (p.name.ends_with(".bias")) {
      EXPECT_EQ(most, 0.0) << p.name;
    } else if (p.name.ends_with(".gain")) {
      EXPECT_EQ(sum, n) << p.name;
    }
  }
}

TEST_P(EveryPreset, PackedEqualsPadded) {
  for (const Pooling pooling : {Pooling::mean, Pooling::cls})
    for (const Positions positions : {Positions::learned, Positions::sinusoidal, Positions::rope, Positions::none}) {
      Context context = make_context();
      ModelConfig config = tiny::config(GetParam());
      config.pooling = pooling;
      config.positions = positions;
      if (positions == Positions::rope && std::string_view(GetParam()) == "linear") {
        EXPECT_THROW(Model(context, config), Error);  // its denominator does not survive a rotation
        continue;
      }
      const Model model(context, config);
      const auto examples = tiny::examples(3, 5);
      const auto packed = logits_of(context, model, batch_of(context, examples, BatchLayout::packed));
      const auto padded = logits_of(context, model, batch_of(context, examples, BatchLayout::padded));
      ASSERT_EQ(packed.size(), 50u);
      for (std::size_t i = 0; i < packed.size(); ++i) EXPECT_NEAR(packed[i], padded[i], 2e-5) << i;
    }
}

class RelativePositions : public ::testing::TestWithParam<Positions> {};
INSTANTIATE_TEST_SUITE_P(All, RelativePositions,
                         ::testing::Values(Positions::alibi, Positions::t5, Positions::shaw, Positions::xl));

TEST_P(RelativePositions, PackedEqualsPadded) {
  for (const bool causal : {false, true}) {
    Context context = make_context();
    ModelConfig config = tiny::config("transformer");
    config.positions = GetParam();
    config.causal = causal;
    const Model model(context, config);
    const auto examples = tiny::examples(3, 5);
    const auto packed = logits_of(context, model, batch_of(context, examples, BatchLayout::packed));
    const auto padded = logits_of(context, model, batch_of(context, examples, BatchLayout::padded));
    for (std::size_t i = 0; i < packed.size(); ++i) EXPECT_NEAR(packed[i], padded[i], 2e-5) << i;
  }
}

TEST_P(RelativePositions, AreRefusedWhereThereAreNone) {
  Context context = make_context();
  ModelConfig config = tiny::config("linear");
  config.positions = GetParam();
  EXPECT_THROW(Model(context, config), Error);
}

// The table of T5 and the biases of Transformer-XL belong to the model; everything else to a layer.
TEST(SharedWeights, AreMadeOnce) {
  const auto count = [](Positions positions, std::string_view ending) {
    Context context = make_context();
    ModelConfig config = tiny::config("transformer");
    config.positions = positions;
    const Model model(context, config);
    std::int64_t found = 0;
    for (const Parameter& p : model.parameters()) found += p.name.ends_with(ending) ? 1 : 0;
    return found;
  };
  EXPECT_EQ(count(Positions::t5, "shared.distances"), 1);
  EXPECT_EQ(count(Positions::xl, "shared.content_bias"), 1);
  EXPECT_EQ(count(Positions::xl, "shared.position_bias"), 1);
  EXPECT_EQ(count(Positions::xl, "attention.encoding"), 2);
  EXPECT_EQ(count(Positions::shaw, "attention.relative_keys"), 2);
  EXPECT_EQ(count(Positions::shaw, "attention.relative_values"), 2);
}

TEST_P(EveryPreset, APaddedTokenChangesNothing) {
  Context context = make_context();
  const Model model(context, tiny::config(GetParam()));
  const Batch batch = batch_of(context, tiny::examples(3, 4), BatchLayout::padded);
  const auto before = logits_of(context, model, batch);
  const std::int64_t n = batch.input.ids.dim(1);
  for (std::size_t b = 0; b < 4; ++b)
    for (std::int64_t i = batch.input.rows.lengths[b]; i < n; ++i)
      batch.input.ids.data<std::int32_t>()[static_cast<std::int64_t>(b) * n + i] = 1'000'000;
  EXPECT_EQ(logits_of(context, model, batch), before);
}

TEST_P(EveryPreset, CheckpointingGivesTheSameGradientsBitForBit) {
  for (const NormPlacement placement : {NormPlacement::pre, NormPlacement::post}) {
    Context context = make_context();
    ModelConfig config = tiny::config(GetParam());
    config.placement = placement;
    const Model plain(context, config);
    config.checkpointing = true;
    const Model checkpointed(context, config);
    const Batch batch = batch_of(context, tiny::examples(3, 5), BatchLayout::packed);
    EXPECT_EQ(gradients_of(context, plain, batch), gradients_of(context, checkpointed, batch));
  }
}

TEST(Checkpointing, SavesMemory) {
  std::map<bool, std::size_t> peak;
  for (const bool checkpointing : {false, true}) {
    Context context = make_context();
    ModelConfig config = tiny::config("norm*6");
    config.checkpointing = checkpointing;
    const Model model(context, config);
    const Batch batch = batch_of(context, tiny::examples(3, 32), BatchLayout::packed);
    context.allocator()->reset_peaks();
    gradients_of(context, model, batch);
    peak[checkpointing] = context.allocator()->use(Lifetime::step).peak;
  }
  EXPECT_LT(2 * peak[true], peak[false]);
}

// The gradient of every parameter, by central differences in double.
void check_gradients(const ModelConfig& config) {
  Context context = make_context();
  const Model model(context, config);
  Random random(8, 8);
  testing::stir(model, random);
  const Batch batch = batch_of(context, tiny::examples(4, 3, 9), BatchLayout::packed);
  Tape tape(context, {.record = true});
  tape.backward(cross_entropy(tape, model.forward(tape, batch.input.ids, batch.input.rows), batch.targets));
  for (const Parameter& p : model.parameters()) {
    ASSERT_TRUE(p.var.grad().defined()) << p.name;
    expect_gradient(p, random, [&] { return loss_of(context, model, batch); });
  }
}

ModelConfig tiny_double(const char* layers) {
  ModelConfig config = without_dropout(tiny::config(layers));
  config.dtype = DType::f64;
  config.width = 6;
  config.inner = 5;
  config.classifier_hidden = 7;
  config.max_length = 9;
  return config;
}

TEST(Gradients, OfATransformer) { check_gradients(tiny_double("softmax*2")); }

TEST(Gradients, OfTransNormerT1) {
  ModelConfig config = tiny_double("diag:block=4,weights=rela,norm=rms/norm:map=elu");
  config.feed_forward = FeedForward::glu;
  config.activation = Activation::silu;
  check_gradients(config);
}

TEST(Gradients, OfTransNormerT2PostNormWithClsAndSinusoids) {
  ModelConfig config = tiny_double("diag:block=4/norm");
  config.feed_forward = FeedForward::glu;
  config.activation = Activation::silu;
  config.placement = NormPlacement::post;
  config.pooling = Pooling::cls;
  config.positions = Positions::sinusoidal;
  config.embedding_scale = 2.5;
  check_gradients(config);
}

TEST(Gradients, OfLinearAttentionWithRmsNorm) {
  ModelConfig config = tiny_double("linear/norm");
  config.norm = StackNorm::rms;
  config.classifier_hidden = 0;
  check_gradients(config);
}

TEST(Gradients, OfNormAttentionWithRotaryPositions) {
  ModelConfig config = tiny_double("norm*2");
  config.positions = Positions::rope;
  config.classifier_hidden = 0;
  check_gradients(config);
}

TEST(Gradients, OfEveryKindOfRelativePositions) {
  for (const Positions positions : {Positions::alibi, Positions::t5, Positions::shaw, Positions::xl}) {
    ModelConfig config = tiny_double("softmax*2");
    config.positions = positions;
    config.classifier_hidden = 0;
    check_gradients(config);
  }
}

TEST_P(EveryPreset, LearnsASmallBatchByHeart) {
  Context context = make_context();
  const Model model(context, tiny::config(GetParam()));
  AdamW adamw(context, model.parameters());
  const Batch batch = batch_of(context, tiny::examples(6, 12, 70), BatchLayout::packed);
  EXPECT_GT(loss_of(context, model, batch), 1.5);
  for (std::uint64_t step = 0; step < 200; ++step) {
    Tape tape(context, {.record = true, .training = true, .stream = step << 20});
    tape.backward(cross_entropy(tape, model.forward(tape, batch.input.ids, batch.input.rows), batch.targets));
    clip_norm(context, model.parameters(), 1.0);
    adamw.step(3e-3);
  }
  EXPECT_LT(loss_of(context, model, batch), 0.15);
}

TEST_P(EveryPreset, Bf16StaysCloseToF32) {
  Context context = make_context();
  ModelConfig config = without_dropout(tiny::config(GetParam()));
  const Model wide(context, config);
  config.dtype = DType::bf16;
  const Model narrow(context, config);
  const Batch batch = batch_of(context, tiny::examples(3, 6), BatchLayout::packed);
  const auto expected = logits_of(context, wide, batch), got = logits_of(context, narrow, batch);
  double size = 0.0, error = 0.0;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    size += expected[i] * expected[i];
    error += (got[i] - expected[i]) * (got[i] - expected[i]);
  }
  EXPECT_LT(std::sqrt(error / size), 0.05);
  const Gradients g = gradients_of(context, narrow, batch);
  for (const Parameter& p : narrow.parameters()) {
    EXPECT_EQ(p.var.dtype(), DType::f32) << p.name;
    for (const float v : g.at(p.name)) ASSERT_TRUE(std::isfinite(v)) << p.name;
  }
}

TEST(Dropout, ChangesWithTheStreamAndOnlyInTraining) {
  Context context = make_context();
  const Model model(context, tiny::config("transformer"));
  const Batch batch = batch_of(context, tiny::examples(3, 5), BatchLayout::packed);
  EXPECT_EQ(loss_of(context, model, batch), loss_of(context, model, batch));
  EXPECT_EQ(loss_of(context, model, batch, true), loss_of(context, model, batch, true));
  EXPECT_NE(loss_of(context, model, batch, true), loss_of(context, model, batch, false));
}

}  // namespace
}  // namespace fovea
