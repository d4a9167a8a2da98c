#include <gtest/gtest.h>

#include <cstring>

#include "support/expect_error.h"
#include "support/pretrained.h"

namespace fovea::pretrained_test {
namespace {

constexpr auto kBad = ErrorCode::bad_input;

ModelConfig config_of(bool tied) {
  ModelConfig config = small("llama");
  config.rope_pairs = RopePairs::adjacent;
  config.tied = tied;
  return config;
}

void append(std::string& bytes, const Tensor& tensor) {
  for (const float value : tensor.to_vector<float>())
    bytes.append(reinterpret_cast<const char*>(&value), sizeof(value));
}

Tensor parameter(const Model& model, const std::string& name) {
  for (const Parameter& p : model.parameters())
    if (p.name == name) return p.var.value();
  ADD_FAILURE() << name;
  return {};
}

// The file as export.py of llama2.c writes it.
std::string file_of(const Model& model) {
  const ModelConfig& c = model.config();
  const auto layers = static_cast<std::int32_t>(c.layers.size());
  const auto vocabulary = static_cast<std::int32_t>(c.tied ? c.vocabulary : -c.vocabulary);
  const std::int32_t header[] = {
      static_cast<std::int32_t>(c.width),     static_cast<std::int32_t>(c.inner),    layers,
      static_cast<std::int32_t>(c.heads),     static_cast<std::int32_t>(c.kv_heads), vocabulary,
      static_cast<std::int32_t>(c.max_length)};
  std::string bytes(reinterpret_cast<const char*>(header), sizeof(header));
  append(bytes, parameter(model, "embedding.tokens"));
  const auto each = [&](const std::string& name, std::int64_t begin, std::int64_t end) {
    for (std::int32_t i = 0; i < layers; ++i) {
      const Tensor whole = parameter(model, "layers." + std::to_string(i) + "." + name);
      append(bytes, whole.rank() == 1 ? whole : whole.slice(1, begin, end).transpose(0, 1));
    }
  };
  const std::int64_t w = c.width, keys = w / c.heads * c.kv_heads;
  each("attention_norm.gain", 0, 0);
  each("attention.qkv.weight", 0, w);
  each("attention.qkv.weight", w, w + keys);
  each("attention.qkv.weight", w + keys, w + 2 * keys);
  each("attention.out.weight", 0, w);
  each("feed_forward_norm.gain", 0, 0);
  each("feed_forward.in.weight", 0, c.inner);
  each("feed_forward.out.weight", 0, w);
  each("feed_forward.in.weight", c.inner, 2 * c.inner);
  append(bytes, parameter(model, "final_norm.gain"));
  bytes.append(static_cast<std::size_t>(c.max_length * (w / c.heads)) * sizeof(float), '\x7f');
  if (!c.tied) append(bytes, parameter(model, "head.weight").transpose(0, 1));
  return bytes;
}

TEST(Llama2c, ReadsBothKindsOfHead) {
  const TemporaryFolder folder;
  Context context({.threads = 1});
  for (const bool tied : {true, false}) {
    const Model model = drawn(context, config_of(tied));
    put(folder / "model.bin", file_of(model));
    for (const std::string& path : {(folder / "model.bin").string(), folder.path().string()}) {
      const Imported back = import_model(context, path);
      EXPECT_EQ(back.architecture, "llama2.c");
      EXPECT_EQ(back.model.config().tied, tied);
      EXPECT_FALSE(back.tokenizer);
      EXPECT_EQ(output(context, back.model), output(context, model));
    }
  }
}

TEST(Llama2c, RefusesFilesThatAreNoModels) {
  const TemporaryFolder folder;
  Context context({.threads = 1});
  const std::string whole = file_of(drawn(context, config_of(true)));
  const auto read = [&](const std::string& bytes) {
    put(folder / "model.bin", bytes);
    return import_model(context, folder / "model.bin");
  };
  const auto with_number = [&](std::size_t place, std::int32_t value) {
    std::string bytes = whole;
    std::memcpy(bytes.data() + 4 * place, &value, sizeof(value));
    return bytes;
  };
  EXPECT_ERROR(read("abc"), kBad, "too short", "model.bin", "copy");
  EXPECT_ERROR(read(whole.substr(0, whole.size() - 4)), kBad, std::to_string(whole.size()), "model.bin", "copy");
  EXPECT_ERROR(read(whole + "abcd"), kBad, "bytes, a model of its sizes has", "model.bin", "copy");
  EXPECT_ERROR(read(with_number(0, 0)), kBad, "number 0 of the header is 0", "model.bin", "version 0");
  EXPECT_ERROR(read(with_number(2, -1)), kBad, "number 2 of the header is -1", "model.bin", "");
  EXPECT_ERROR(read(with_number(1, 1 << 30)), kBad, "number 1 of the header", "model.bin", "");
  EXPECT_ERROR(read(with_number(3, 3)), kBad, "do not fit together", "model.bin", "");
  EXPECT_ERROR(read(with_number(5, 12)), kBad, "bytes, a model of its sizes has", "model.bin", "");
}

}  // namespace
}  // namespace fovea::pretrained_test
