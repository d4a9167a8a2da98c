#include <gtest/gtest.h>

#include "support/expect_error.h"
#include "support/pretrained.h"

// Folders that are wrong: each is refused by name, with what to do.
namespace fovea::pretrained_test {
namespace {

constexpr auto kBad = ErrorCode::bad_input;
constexpr auto kUnsupported = ErrorCode::unsupported;

class Folder : public ::testing::Test {
 protected:
  void write(const std::string& name) {
    std::filesystem::remove_all(folder_ / "m");
    export_model(drawn(context_, small(name)), folder_ / "m");
  }
  std::filesystem::path file(const std::string& name) const { return (folder_ / "m") / name; }
  Imported read(const ImportOptions& options = {}) { return import_model(context_, folder_ / "m", options); }
  void with(const std::map<std::string, Json>& fields) {
    write(format_);
    change(file("config.json"), fields);
  }
  // Two shards with an index.
  void write_shards() {
    write("llama");
    const std::vector<NamedTensor> all = tensors_of(context_, file("model.safetensors"));
    std::filesystem::remove(file("model.safetensors"));
    Json map = Json::object();
    std::size_t bytes = 0;
    for (int shard = 0; shard < 2; ++shard) {
      const std::string name = shard == 0 ? "model-1.safetensors" : "model-2.safetensors";
      std::vector<NamedTensor> some;
      for (std::size_t i = static_cast<std::size_t>(shard); i < all.size(); i += 2) {
        some.push_back(all[i]);
        map[all[i].name] = name;
        bytes += all[i].tensor.bytes();
      }
      write_safetensors(file(name).string(), some);
    }
    put_index(map, bytes);
  }
  void put_index(const Json& map, std::size_t bytes) {
    map_ = map;
    bytes_ = bytes;
    put(file("model.safetensors.index.json"), Json{{"metadata", {{"total_size", bytes}}}, {"weight_map", map}}.dump());
  }

  TemporaryFolder folder_;
  Context context_{{.threads = 1}};
  std::string format_ = "bert";
  Json map_;
  std::size_t bytes_ = 0;
};

TEST_F(Folder, Places) {
  EXPECT_ERROR(import_model(context_, folder_ / "none"), kBad, "no such folder", "none", "");
  std::filesystem::create_directory(folder_ / "m");
  EXPECT_ERROR(read(), kBad, "no such file", "config.json", "");
  put(file("config.json"), "[]");
  EXPECT_ERROR(read(), kBad, "not a JSON object", "config.json", "");
  put(file("config.json"), "{");
  EXPECT_ERROR(read(), kBad, "not JSON", "config.json", "");
  put(file("config.json"), "{\"model\": {}}");
  EXPECT_ERROR(read(), kBad, "architectures", "config.json", "needs no import");
  write("bert");
  std::filesystem::remove(file("model.safetensors"));
  EXPECT_ERROR(read(), kBad, "no model.safetensors", "m", "copy");
  put(file("pytorch_model.bin"), "x");
  EXPECT_ERROR(read(), kUnsupported, "pytorch_model.bin", "m", "safe_serialization");
}

TEST_F(Folder, Fields) {
  with({{"architectures", Json{"BertForMaskedLn"}}});
  EXPECT_ERROR(read(), kUnsupported, "BertForMaskedLn", "config.json", "\"BertForMaskedLM\"?");
  with({{"quantization_config", Json{{"bits", 4}}}, {"soft_cap", 3.0}});
  EXPECT_ERROR(read(), kUnsupported, "\"quantization_config\", \"soft_cap\" are not known", "config.json",
               "--ignore quantization_config,soft_cap");
  EXPECT_EQ(read({.ignore = {"quantization_config", "soft_cap"}}).architecture, "BertForMaskedLM");
  with({{"position_embedding_type", "relative_key"}});
  EXPECT_ERROR(read(), kUnsupported, "relative_key", "config.json", "only \"absolute\"");
  with({{"hidden_act", "snake"}});
  EXPECT_ERROR(read(), kUnsupported, "\"hidden_act\" is \"snake\"", "config.json", "gelu");
  with({{"hidden_size", nullptr}});
  EXPECT_ERROR(read(), kBad, "\"hidden_size\" is missing", "config.json", "");
  for (const Json& wrong : {Json("8"), Json(-8), Json(8.5), Json(1e30), Json::array()}) {
    with({{"hidden_size", wrong}});
    EXPECT_ERROR(read(), kBad, "not a size", "config.json", "");
  }
  with({{"num_hidden_layers", 5000}});
  EXPECT_ERROR(read(), kBad, "\"num_hidden_layers\" is 5000", "config.json", "");
  with({{"num_attention_heads", 3}});
  EXPECT_ERROR(read(), kBad, "3 heads do not divide", "config.json", "");
  with({{"layer_norm_eps", "small"}});
  EXPECT_ERROR(read(), kBad, "not a number", "config.json", "");
  with({{"vocab_size", 16000000}});
  EXPECT_ERROR(read(), kBad, "describes a model of at least 128000000 numbers", "m", "same model");
  with({{"is_decoder", true}});
  EXPECT_ERROR(read(), kUnsupported, "\"is_decoder\" is true", "config.json", "only false");
  format_ = "llama";
  with({{"mlp_bias", true}});
  EXPECT_ERROR(read(), kUnsupported, "mlp_bias", "config.json", "both or none");
  with({{"rope_scaling", Json{{"rope_type", "yarn"}}}});
  EXPECT_ERROR(read(), kUnsupported, "\"yarn\"", "config.json", "");
}

TEST_F(Folder, Tensors) {
  write("bert");
  const std::string path = file("model.safetensors").string();
  const std::vector<NamedTensor> all = tensors_of(context_, path);
  const auto with_tensors = [&](auto&& change_them) {
    std::vector<NamedTensor> tensors = all;
    change_them(tensors);
    write_safetensors(path, tensors);
  };
  with_tensors([](auto& tensors) { tensors[0].name += "s"; });
  EXPECT_ERROR(read(), kBad, "\"" + all[0].name + "\" is missing", "m", "\"" + all[0].name + "s\"?");
  with_tensors([](auto& tensors) { tensors.resize(3); });
  EXPECT_ERROR(read(), kBad, "tensors are missing, the first is", "m", "");
  with_tensors([&](auto& tensors) { tensors.push_back({"bert.encoder.extra", all[0].tensor}); });
  EXPECT_ERROR(read(), kUnsupported, "\"bert.encoder.extra\" has no place", "model.safetensors", "same model");
  with_tensors([&](auto& tensors) { tensors[0].tensor = Tensor::zeros(context_, {3, 5}); });
  EXPECT_ERROR(read(), kBad, "is (3, 5), but config.json makes it " + all[0].tensor.shape().text(), "model.safetensors",
               "");
  with_tensors([&](auto& tensors) { tensors[0].tensor = Tensor::zeros(context_, all[0].tensor.shape(), DType::u8); });
  EXPECT_ERROR(read(), kUnsupported, "is of type u8", "model.safetensors", "quantised");
  const std::string whole = get(path);
  put(path, whole.substr(0, whole.size() - 40));
  EXPECT_ERROR(read(), kBad, "cut off: it has " + std::to_string(whole.size() - 40) + " bytes", "model.safetensors",
               "copy");
}

TEST_F(Folder, Shards) {
  write_shards();
  EXPECT_EQ(read().architecture, "LlamaForCausalLM");
  put_index(map_, bytes_ + 4);
  EXPECT_ERROR(read(), kBad, std::to_string(bytes_) + " are expected", "index.json", "copy");
  write_shards();
  const std::string whole = get(file("model-2.safetensors"));
  put(file("model-2.safetensors"), whole.substr(0, whole.size() - 4));
  EXPECT_ERROR(read(), kBad, std::to_string(whole.size()) + " are expected", "model-2.safetensors", "copy");
  std::filesystem::remove(file("model-2.safetensors"));
  EXPECT_ERROR(read(), kBad, "model-2.safetensors is missing", "index.json", "copy it");
  write_shards();
  Json map = map_;
  map["model.norm.weights"] = "model-1.safetensors";
  put_index(map, bytes_);
  EXPECT_ERROR(read(), kBad, "\"model.norm.weights\" is not in the file", "model-1.safetensors", "");
  write_shards();
  map = map_;
  map.erase("model.norm.weight");
  put_index(map, bytes_);
  EXPECT_ERROR(read(), kBad, "not in the index", "index.json", "");
  map["model.norm.weight"] = "../m/model-1.safetensors";
  put_index(map, bytes_);
  EXPECT_ERROR(read(), kBad, "not in a file beside it", "index.json", "");
  put(file("model.safetensors.index.json"), "{}");
  EXPECT_ERROR(read(), kBad, "no \"weight_map\"", "index.json", "");
  std::filesystem::copy_file(file("model-1.safetensors"), file("model-3.safetensors"));
  write_shards();
}

TEST_F(Folder, SentenceModules) {
  write("encoder-mean");
  EXPECT_TRUE(std::filesystem::exists(file("modules.json")));
  const ModelConfig config = read().model.config();
  EXPECT_EQ(config.pooling, Pooling::mean);
  EXPECT_TRUE(config.unit_features);
  EXPECT_EQ(read({.pooling = Pooling::last}).model.config().pooling, Pooling::last);
  put(file("sentence_bert_config.json"), "{\"max_seq_length\": 5}");
  EXPECT_EQ(read().model.config().max_length, 5);
  change(file("1_Pooling/config.json"), {{"pooling_mode_mean_tokens", false}, {"pooling_mode_max_tokens", true}});
  EXPECT_ERROR(read(), kUnsupported, "pooling_mode_max_tokens", "1_Pooling/config.json", "mean_tokens");
  change(file("1_Pooling/config.json"), {{"pooling_mode_max_tokens", false}});
  EXPECT_ERROR(read(), kUnsupported, "no way of pooling", "1_Pooling/config.json", "");
  write("encoder-mean");
  Json modules = parse_json(get(file("modules.json")), "");
  modules.push_back({{"path", "3_Dense"}, {"type", "sentence_transformers.models.Dense"}});
  put(file("modules.json"), modules.dump());
  EXPECT_ERROR(read(), kUnsupported, "sentence_transformers.models.Dense", "modules.json", "Normalize");
  put(file("modules.json"), "[{\"path\": \"\"}]");
  EXPECT_ERROR(read(), kBad, "without \"type\"", "modules.json", "");
  put(file("modules.json"), R"([{"path": "a/../../x", "type": "models.Transformer"}])");
  EXPECT_ERROR(read(), kBad, "outside the folder: \"../x\"", "modules.json", "");
  put(file("modules.json"), "[]");
  EXPECT_ERROR(read(), kUnsupported, "no Transformer", "modules.json", "");
  write("bert-classes");
  EXPECT_ERROR(read({.pooling = Pooling::mean}), kUnsupported, "without a head", "config.json", "BertModel");
}

TEST_F(Folder, Tokenisers) {
  write("bert");
  put(file("tokenizer.json"), R"({"model": {"type": "WordLevel", "unk_token": "a", "vocab": {"a": 0, "b": 50}}})");
  EXPECT_ERROR(read(), kBad, "a tokeniser of 51 ids for a model of 11", "m", "trained with");
}

}  // namespace
}  // namespace fovea::pretrained_test
