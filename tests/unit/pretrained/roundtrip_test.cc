#include <gtest/gtest.h>

#include "pretrained/mapping.h"
#include "support/expect_error.h"
#include "support/pretrained.h"

// What is written is read back: the same parameters bit for bit, the same outputs.
namespace fovea::pretrained_test {
namespace {

void expect_same_parameters(const Model& a, const Model& b) {
  ASSERT_EQ(a.parameters().size(), b.parameters().size());
  for (std::size_t i = 0; i < a.parameters().size(); ++i) {
    EXPECT_EQ(a.parameters()[i].name, b.parameters()[i].name);
    EXPECT_EQ(a.parameters()[i].var.value().to_vector<float>(), b.parameters()[i].var.value().to_vector<float>())
        << a.parameters()[i].name;
  }
}

class EveryFormat : public ::testing::TestWithParam<std::string> {};

TEST_P(EveryFormat, ComesBack) {
  const TemporaryFolder folder;
  Context context({.threads = 2});
  const Model model = drawn(context, small(GetParam()));
  export_model(model, folder / "out");
  const Imported back = import_model(context, folder / "out");
  EXPECT_TRUE(back.left_out.empty());
  expect_same_parameters(model, back.model);
  EXPECT_EQ(output(context, model), output(context, back.model));
}

TEST_P(EveryFormat, GivesTheSameAtAnyNumberOfThreads) {
  const TemporaryFolder folder;
  Context one({.threads = 1}), three({.threads = 3});
  export_model(drawn(one, small(GetParam())), folder / "out");
  expect_same_parameters(import_model(one, folder / "out").model, import_model(three, folder / "out").model);
}

INSTANTIATE_TEST_SUITE_P(Pretrained, EveryFormat,
                         ::testing::Values("gpt2", "llama", "bert", "bert-classes", "roberta", "encoder",
                                           "encoder-mean", "t5", "vit"),
                         [](const auto& info) {
                           std::string name = info.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

TEST(Pretrained, ReadsNamesWithAndWithoutPrefixAndOldNorms) {
  const TemporaryFolder folder;
  Context context({.threads = 1});
  const Model model = drawn(context, small("bert"));
  export_model(model, folder / "out");
  const std::string file = (folder / "out") / "model.safetensors";
  std::vector<NamedTensor> tensors = tensors_of(context, file);
  for (NamedTensor& tensor : tensors) {
    if (tensor.name.starts_with("bert.")) tensor.name = tensor.name.substr(5);
    if (tensor.name.ends_with("LayerNorm.weight")) tensor.name.replace(tensor.name.size() - 6, 6, "gamma");
    if (tensor.name.ends_with("LayerNorm.bias")) tensor.name.replace(tensor.name.size() - 4, 4, "beta");
  }
  const Tensor spare = Tensor::zeros(context, {2, 3}, DType::i64);
  tensors.push_back({"embeddings.position_ids", spare});
  tensors.push_back({"cls.seq_relationship.weight", spare});
  write_safetensors(file, tensors);
  const Imported back = import_model(context, folder / "out");
  expect_same_parameters(model, back.model);
  EXPECT_EQ(back.left_out, (std::vector<std::string>{"cls.seq_relationship.weight", "embeddings.position_ids"}));
}

TEST(Pretrained, ReadsHalfPrecision) {
  const TemporaryFolder folder;
  Context context({.threads = 1, .memory = {.poison = true}});
  const Model model = drawn(context, small("llama"));
  export_model(model, folder / "out");
  const std::string file = (folder / "out") / "model.safetensors";
  for (const DType dtype : {DType::bf16, DType::f16}) {
    std::vector<NamedTensor> tensors = tensors_of(context, file);
    for (NamedTensor& tensor : tensors) tensor.tensor = tensor.tensor.to(context, dtype);
    write_safetensors(file, tensors);
    const Model half = import_model(context, folder / "out").model;
    for (std::size_t i = 0; i < half.parameters().size(); ++i) {
      const auto exact = model.parameters()[i].var.value().to_vector<float>();
      const auto rounded = half.parameters()[i].var.value().to_vector<float>();
      for (std::size_t k = 0; k < exact.size(); ++k) EXPECT_NEAR(exact[k], rounded[k], 0.006 * std::abs(exact[k]));
    }
  }
}

TEST(Pretrained, KeepsAHeadThatDiffersFromTheEmbedding) {
  const TemporaryFolder folder;
  Context context({.threads = 1});
  ModelConfig config = small("gpt2");
  config.tied = false;
  export_model(drawn(context, config), folder / "out");
  change((folder / "out") / "config.json", {{"tie_word_embeddings", true}});
  EXPECT_FALSE(import_model(context, folder / "out").model.config().tied);
  const std::string file = (folder / "out") / "model.safetensors";
  std::vector<NamedTensor> tensors = tensors_of(context, file);
  const auto named = [&](const std::string& name) {
    return std::find_if(tensors.begin(), tensors.end(), [&](const auto& t) { return t.name == name; });
  };
  named("lm_head.weight")->tensor.copy_from(named("transformer.wte.weight")->tensor);
  write_safetensors(file, tensors);
  const Imported tied = import_model(context, folder / "out");
  EXPECT_TRUE(tied.model.config().tied);
  EXPECT_EQ(tied.left_out, std::vector<std::string>{"lm_head.weight"});
}

TEST(Pretrained, TurnsThePairsOfRope) {
  const TemporaryFolder folder;
  Context context({.threads = 1});
  ModelConfig config = small("llama");
  config.rope_pairs = RopePairs::adjacent;
  config.bias = true;
  const Model model = drawn(context, config);
  export_model(model, folder / "out");
  const Model back = import_model(context, folder / "out").model;
  EXPECT_EQ(back.config().rope_pairs, RopePairs::halves);
  const auto expected = output(context, model), got = output(context, back);
  for (std::size_t i = 0; i < expected.size(); ++i) EXPECT_NEAR(got[i], expected[i], 1e-5);
}

TEST(Pretrained, RefusesModelsThatAFormatCannotDescribe) {
  const TemporaryFolder folder;
  Context context({.threads = 1});
  const auto out = [&](const ModelConfig& config, const std::string& format = {}) {
    export_model(Model(context, config), folder / "out", {.format = format});
  };
  EXPECT_ERROR(out(small("gpt2"), "gtp2"), ErrorCode::usage, "gtp2", "format", "\"gpt2\"?");
  EXPECT_ERROR(out(small("gpt2"), "bert"), ErrorCode::unsupported, "bert has no models for lm", "model", "");
  EXPECT_ERROR(out(small("gpt2"), "llama"), ErrorCode::unsupported, "LlamaForCausalLM has no norm = \"layer\"", "model",
               "");
  ModelConfig config = small("gpt2");
  config.layers = {"softmax", "norm"};
  EXPECT_ERROR(out(config), ErrorCode::unsupported, "layers[1] = \"norm\"", "model", "");
  config = small("gpt2");
  config.norm_affine = false;
  EXPECT_ERROR(out(config), ErrorCode::unsupported, "norm_affine", "model", "");
  config = small("vit");
  config.pooling = Pooling::mean;
  EXPECT_ERROR(out(config), ErrorCode::unsupported, "pooling", "model", "");
  EXPECT_EQ(folder.files(), 0u);
}

TEST(Pretrained, PatternsFitNames) {
  using pretrained::fits;
  EXPECT_TRUE(fits("h.0.attn.bias", "*.attn.bias"));
  EXPECT_FALSE(fits("h.0.attn.c_attn.bias", "*.attn.bias"));
  EXPECT_TRUE(fits("bert.pooler.dense.weight", "*pooler.dense.*"));
  EXPECT_TRUE(fits("a", "*"));
  EXPECT_TRUE(fits("", "*"));
  EXPECT_FALSE(fits("ab", "a"));
  EXPECT_TRUE(fits("aXbXc", "a*b*c"));
}

}  // namespace
}  // namespace fovea::pretrained_test
