#include <gtest/gtest.h>

#include <cmath>

#include "fovea/optim.h"
#include "models/network.h"
#include "support/expect_error.h"
#include "support/families.h"
#include "support/parameter_gradients.h"
#include "support/temporary_folder.h"

namespace fovea {
namespace {

Context make_context() { return Context({.threads = 2, .seed = 5, .memory = {.poison = true}}); }

double loss_of(Context& context, const Model& model, const Batch& batch) {
  Tape tape(context, {.record = false});
  return model.loss(tape, batch).value.value().item();
}

class EveryFamily : public ::testing::TestWithParam<std::string> {};
std::string family_name(const ::testing::TestParamInfo<std::string>& info) {
  std::string name = info.param;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}
INSTANTIATE_TEST_SUITE_P(Families, EveryFamily, ::testing::ValuesIn(families::names()), family_name);

// Experts that no token chose have no gradient; all others have.
bool may_be_idle(const std::string& parameter) { return parameter.find("experts.") != std::string::npos; }

void check_gradients(const ModelConfig& config) {
  Context context = make_context();
  const Model model(context, config);
  Random random(8, 8);
  testing::stir(model, random);
  const Batch batch = families::random_batch(context, config, 4);
  Tape tape(context, {.record = true});
  tape.backward(model.loss(tape, batch).value);
  for (const Parameter& p : model.parameters()) {
    if (!p.trained()) continue;
    if (may_be_idle(p.name) && !p.var.grad().defined()) continue;
    ASSERT_TRUE(p.var.grad().defined()) << p.name;
    expect_gradient(p, random, [&] { return loss_of(context, model, batch); });
  }
}

TEST_P(EveryFamily, HasTheGradientOfItsLoss) { check_gradients(families::family(GetParam())); }

// The settings that no preset has.
TEST(Families, HaveTheGradientOfTheirLossWithEveryNorm) {
  for (const StackNorm norm : {StackNorm::rms_a, StackNorm::batch, StackNorm::instance, StackNorm::group})
    for (const NormPlacement placement : {NormPlacement::pre, NormPlacement::post}) {
      ModelConfig config = families::family("transformer");
      config.norm = norm;
      config.norm_groups = 2;
      config.placement = placement;
      check_gradients(config);
    }
  ModelConfig causal = families::family("gpt");
  causal.norm = StackNorm::group;
  causal.norm_groups = 4;
  check_gradients(causal);
}

TEST(Families, HaveTheGradientOfTheirLossWithNormedWeightsAndSharedKeys) {
  ModelConfig config = families::family("seq2seq");
  config.weight_norm = config.decoder->weight_norm = true;
  config.decoder->cross = {"norm", "linear"};
  check_gradients(config);
  ModelConfig query = families::family("gpt");
  query.kv_heads = 1;
  query.positions = Positions::t5;
  query.tied = false;
  query.head_bias = true;
  check_gradients(query);
}

TEST(Families, HaveTheGradientOfTheirLossWithOtherForecastersAndTowers) {
  ModelConfig recurrent = families::family("memformer-forecast");
  recurrent.series->recurrent = true;
  recurrent.placement = NormPlacement::pre;
  check_gradients(recurrent);
  ModelConfig informer = families::family("informer-forecast");
  informer.placement = NormPlacement::pre;
  informer.layers = {"softmax", "norm"};
  informer.series->marks = 0;
  check_gradients(informer);
  ModelConfig towers = families::family("clip");
  towers.causal = false;
  towers.pooling = Pooling::cls;
  check_gradients(towers);
  ModelConfig ungated = families::family("clip-cross");
  ungated.gated_cross = false;
  ungated.pooling = Pooling::mean;
  ungated.cross = {"norm", "softmax"};
  check_gradients(ungated);
}

// A token's expert may change under a finite difference, but not within 1e-6; the penalty is part of the loss while
// training, so the router has a gradient even where its gates do not matter.
TEST(Families, HaveTheGradientOfTheirLossWithExperts) {
  for (const char* name : {"gpt", "roberta"}) {
    ModelConfig config = families::family(name);
    config.experts = 3;
    config.expert_capacity = 2.0;
    check_gradients(config);
  }
}

TEST_P(EveryFamily, HasTheSameGradientWithCheckpointing) {
  std::vector<std::vector<double>> kept;
  for (const bool checkpointing : {false, true}) {
    Context context = make_context();
    ModelConfig config = families::family(GetParam());
    config.experts = 2;
    config.checkpointing = checkpointing;
    const Model model(context, config);
    Tape tape(context, {.record = true, .training = true});
    tape.backward(model.loss(tape, families::random_batch(context, config, 4)).value);
    for (std::size_t i = 0; i < model.parameters().size(); ++i) {
      const Parameter& p = model.parameters()[i];
      const bool has = p.trained() && p.var.grad().defined();
      const auto grad = has ? p.var.grad().to_vector<double>() : std::vector<double>();
      if (checkpointing)
        EXPECT_EQ(grad, kept[i]) << p.name;
      else
        kept.push_back(grad);
    }
  }
}

TEST_P(EveryFamily, LearnsABatchByHeart) {
  Context context = make_context();
  const ModelConfig config = families::family(GetParam(), DType::f32);
  const Model model(context, config);
  AdamW adamw(context, model.parameters());
  const Batch batch = families::random_batch(context, config, 6);
  const double first = loss_of(context, model, batch);
  for (std::uint64_t step = 0; step < 250; ++step) {
    Tape tape(context, {.record = true, .training = true, .stream = step << 20});
    tape.backward(model.loss(tape, batch).value);
    clip_norm(context, model.parameters(), 1.0);
    adamw.step(1e-2);
  }
  EXPECT_LT(loss_of(context, model, batch), 0.35 * first);
}

TEST_P(EveryFamily, IsTheSameAfterSavingAndLoading) {
  const TemporaryFolder folder;
  Context context = make_context(), other({.seed = 99});
  const ModelConfig config = families::family(GetParam(), DType::f32);
  const Model model(context, config);
  save_model(model, folder / "model");
  const Model loaded = load_model(other, folder / "model");
  const Batch batch = families::random_batch(context, config, 6);
  EXPECT_EQ(loss_of(context, model, batch), loss_of(other, loaded, batch));
}

TEST_P(EveryFamily, RunsInBf16CloseToF32) {
  Context context = make_context();
  const Model exact(context, families::family(GetParam(), DType::f32));
  const ModelConfig config = families::family(GetParam(), DType::bf16);
  const Model model(context, config);
  const Batch batch = families::random_batch(context, config, 6);
  EXPECT_NEAR(loss_of(context, model, batch), loss_of(context, exact, batch), 0.05);
}

// Attention layers whose step form is compared with the parallel one.
struct StepCase {
  std::string preset, attention;
};
class Stepping : public ::testing::TestWithParam<StepCase> {};

std::vector<StepCase> step_cases() {
  std::vector<StepCase> cases;
  for (const char* preset : {"gpt", "llama", "transnormer-t1-lm", "transnormer-t2-lm", "seq2seq", "t5"})
    cases.push_back({preset, ""});
  for (const std::string_view name : mechanism_names()) {
    const Mechanism mechanism(name);
    if (mechanism.supports(Feature::step) && mechanism.supports(Feature::packed))
      cases.push_back({"gpt", std::string(name)});
  }
  return cases;
}

std::string step_name(const ::testing::TestParamInfo<StepCase>& info) {
  std::string name = info.param.preset + "_" + info.param.attention;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}
INSTANTIATE_TEST_SUITE_P(Families, Stepping, ::testing::ValuesIn(step_cases()), step_name);

// Tokens [begin, end) of every sequence of a packed input.
Input part_of(const Context& context, const Input& all, std::int64_t begin, std::int64_t end) {
  std::vector<std::span<const std::int32_t>> parts;
  for (std::size_t s = 0; s + 1 < all.rows.cu_seqlens.size(); ++s)
    parts.emplace_back(all.ids.data<std::int32_t>() + all.rows.cu_seqlens[s] + begin,
                       static_cast<std::size_t>(end - begin));
  return packed_rows<std::int32_t>(context, parts);
}

// A few tokens at once, then one by one, two sequences side by side: the logits of the parallel form.
TEST_P(Stepping, GivesWhatTheParallelFormGives) {
  Context context = make_context();
  ModelConfig config = families::small(GetParam().preset);
  if (!GetParam().attention.empty()) config.set_attention(GetParam().attention);
  const Model model(context, config);
  Random random(8, 8);
  testing::stir(model, random);
  constexpr std::int64_t kTokens = 9;
  Batch batch;
  const Input tokens = families::random_input(context, random, {kTokens, kTokens});
  const bool translates = config.task == Task::seq2seq;
  (translates ? batch.second : batch.input) = tokens;
  if (translates) batch.input = families::random_input(context, random, {4, 7});
  Tape tape(context, {.record = false});
  const auto parallel = model.forward(tape, batch).value().to_vector<double>();

  const Network& network = model.network();
  std::vector<nn::Past> pasts(2, network.new_past());
  nn::Source source = translates ? network.read_source(tape, batch.input) : nn::Source{};
  for (std::int64_t begin = 0, end = 3; begin < kTokens; begin = end++) {
    const Var logits = network.step(tape, part_of(context, tokens, begin, end), {&pasts[0], &pasts[1]}, source);
    source = {};
    ASSERT_EQ(logits.shape(), (Shape{2, families::kVocabulary}));
    const auto got = logits.value().to_vector<double>();
    for (std::size_t i = 0; i < got.size(); ++i) {
      const std::size_t sequence = i / families::kVocabulary, token = i % families::kVocabulary;
      const std::size_t row = sequence * kTokens + static_cast<std::size_t>(end) - 1;
      EXPECT_NEAR(got[i], parallel[row * families::kVocabulary + token], 1e-9) << "after " << end << " tokens";
    }
  }
  EXPECT_EQ(pasts[0].length, kTokens);
}

TEST(Families, RefuseWhatTheyCannotRead) {
  Context context = make_context();
  ModelConfig config = families::family("vit");
  const Model vit(context, config);
  Batch batch = families::random_batch(context, config, 1);
  batch.input.values = batch.input.values.slice(2, 0, 3);
  Tape tape(context, {.record = false});
  EXPECT_ERROR(vit.forward(tape, batch), ErrorCode::shape, "6 x 3 with 2 channels", "model.batch.values", "");
  config.image->patch = 4;
  EXPECT_ERROR(Model(context, config), ErrorCode::usage, "do not cover 6 x 4", "model.image.patch", "divisor");

  const Model gpt(context, families::family("gpt"));
  std::vector<nn::Past> pasts = {gpt.network().new_past()};
  pasts[0].length = families::kLength;
  Random random(1, 1);
  EXPECT_ERROR(gpt.network().step(tape, families::random_input(context, random, {1}), {pasts.data()}, {}),
               ErrorCode::shape, "10 tokens, but the model has positions for 9", "batch.sequences[0]", "");
  EXPECT_ERROR(vit.network().new_past(), ErrorCode::unsupported, "does not generate", "model.task", "");

  ModelConfig grouped = families::small("gpt");
  grouped.kv_heads = 3;
  EXPECT_ERROR(Model(context, grouped), ErrorCode::usage, "3 heads of keys", "model.kv_heads", "divisor");
  ModelConfig shared = families::small("seq2seq");
  shared.decoder_vocabulary = 20;
  EXPECT_ERROR(Model(context, shared), ErrorCode::usage, "share an embedding", "model.shared_embedding", "");
  shared = families::small("seq2seq");
  shared.decoder->width *= 2;
  EXPECT_ERROR(Model(context, shared), ErrorCode::usage, "share an embedding", "model.decoder.width", "");
}

}  // namespace
}  // namespace fovea
