#include <gtest/gtest.h>

#include "io/fields.h"
#include "support/expect_error.h"
#include "support/tiny.h"

namespace fovea {
namespace {

using Texts = std::vector<std::string>;

TEST(Layers, AreWrittenOut) {
  EXPECT_EQ(parse_layers("softmax"), Texts{"softmax"});
  EXPECT_EQ(parse_layers("diag/norm*2"), (Texts{"diag", "norm", "norm"}));
  EXPECT_EQ(parse_layers("diag:block=64,weights=rela*2/norm"),
            (Texts{"diag:block=64,weights=rela", "diag:block=64,weights=rela", "norm"}));
  EXPECT_EQ(parse_layers("norm:map=elu+1/diag:block=8"), (Texts{"norm:map=elu+1", "diag:block=8"}));
}

TEST(Layers, RefuseNonsense) {
  for (const char* bad :
       {"", "/norm", "norm/", "diag//norm", "norm*0", "norm*-1", "norm*x", "norm*", "norm*1001", "*2", "norm*1e3"})
    EXPECT_THROW(parse_layers(bad), Error) << bad;
}

TEST(Layers, CommasAreBetweenModels) {
  EXPECT_ERROR(parse_layers("diag:block=64,weights=rela*2,norm"), ErrorCode::usage, "commas", "attention",
               "\"diag:block=64,weights=rela*2/norm\"");
  EXPECT_ERROR(ModelConfig::preset("diag*1,norm*1"), ErrorCode::usage, "commas", "attention", "diag*1/norm*1");
  EXPECT_ERROR(ModelConfig::preset("gpt").set_attention("diag,norm"), ErrorCode::usage, "commas", "attention",
               "fovea compare");
}

TEST(Preset, TransNormerIsDiagThenNorm) {
  const ModelConfig t1 = ModelConfig::preset("transnormer-t1"), t2 = ModelConfig::preset("transnormer-t2");
  EXPECT_EQ(t2.layers, (Texts{"diag:block=64,weights=softmax", "norm:map=elu+1"}));
  EXPECT_EQ(t1.layers, (Texts{"diag:block=64,weights=rela,norm=rms", "norm:map=elu"}));
  EXPECT_EQ(t1.inner, 85);
  EXPECT_EQ(t1.feed_forward, FeedForward::glu);
  EXPECT_EQ(t1.activation, Activation::silu);
}

TEST(Preset, AMechanismStandsForTheTransformerWithIt) {
  EXPECT_EQ(ModelConfig::preset("norm").layers, (Texts{"norm", "norm"}));
  EXPECT_EQ(ModelConfig::preset("diag:block=32,weights=rela").layers, Texts(2, "diag:block=32,weights=rela"));
  EXPECT_EQ(ModelConfig::preset("diag/norm*2").layers, (Texts{"diag", "norm", "norm"}));
  EXPECT_EQ(ModelConfig::preset("norm*1").layers, Texts{"norm"});
  ModelConfig gpt = ModelConfig::preset("gpt");
  gpt.set_attention("transnormer-t2");
  EXPECT_EQ(write_fields(gpt), write_fields(ModelConfig::preset("transnormer-t2-lm")));
}

TEST(Preset, AMistypedNameGetsTheNearestOne) {
  EXPECT_ERROR(ModelConfig::preset("transnormer-t3"), ErrorCode::usage, "transnormer-t3", "attention", "transnormer-t");
  EXPECT_ERROR(ModelConfig::preset("sotfmax"), ErrorCode::usage, "sotfmax", "attention", "softmax");
  EXPECT_ERROR(ModelConfig::preset("diag/nrom"), ErrorCode::usage, "nrom", "layers[1]", "norm");
}

TEST(Config, HeadsMustDivideTheWidth) {
  ModelConfig config;
  config.heads = 3;
  EXPECT_ERROR(config.check(), ErrorCode::usage, "3 heads do not divide the width 64", "heads", "divisor");
}

TEST(Config, SizesMustBePositive) {
  ModelConfig config;
  config.heads = 0;
  EXPECT_ERROR(config.check(), ErrorCode::usage, "at least 1", "heads", "");
  config = {};
  config.inner = -3;
  EXPECT_ERROR(config.check(), ErrorCode::usage, "got -3", "inner", "");
}

TEST(Config, ReadsAndWritesItself) {
  for (const std::string_view name : ModelConfig::preset_names()) {
    const ModelConfig config = ModelConfig::preset(name);
    ModelConfig again;
    read_fields(again, write_fields(config), "test");
    EXPECT_EQ(write_fields(again), write_fields(config)) << name;
  }
}

TEST(Config, TakesLayersAsAListOrInShort) {
  ModelConfig config;
  read_fields(config, Json::parse(R"({"layers": ["diag:block=8", "norm*2"]})"), "file.json");
  EXPECT_EQ(config.layers, (Texts{"diag:block=8", "norm", "norm"}));
  set_fields(config, Texts{"layers=diag:block=8,weights=rela*2,softmax"});
  EXPECT_EQ(config.layers, (Texts{"diag:block=8,weights=rela", "diag:block=8,weights=rela", "softmax"}));
}

TEST(Config, RefusesUnknownAndMisspeltKeysWithThePath) {
  ModelConfig config;
  EXPECT_ERROR(read_fields(config, Json::parse(R"({"widht": 3})"), "file.json"), ErrorCode::bad_input, "widht",
               "file.json", "width");
  EXPECT_ERROR(read_fields(config, Json::parse(R"({"layers": ["norm", "nrom"]})"), "file.json"), ErrorCode::bad_input,
               "nrom", "layers[1]", "norm");
  EXPECT_ERROR(set_fields(config, Texts{"activation=gleu"}), ErrorCode::usage, "gleu", "activation", "gelu");
  EXPECT_ERROR(set_fields(config, Texts{"dropout=1.5"}), ErrorCode::usage, "1.5", "dropout", "");
  EXPECT_EQ(write_fields(config), write_fields(ModelConfig{}));  // nothing was changed
}

}  // namespace
}  // namespace fovea
