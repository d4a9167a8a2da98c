#include <fmt/format.h>

#include <array>
#include <cstdlib>
#include <cstring>

#include "pretrained/import.h"
#include "pretrained/weights.h"

// The first format of llama2.c: seven int32 (width, hidden size, layers, heads, heads of keys, vocabulary, positions),
// then all weights as f32, of each kind those of all layers together: matrices (out, in). Two tables of angles that
// nobody reads stand before the head, which is there when the vocabulary is written as a negative number.
namespace fovea::pretrained {
namespace {

constexpr std::size_t kNumbers = 7;
constexpr std::size_t kHeaderBytes = kNumbers * sizeof(std::int32_t);
constexpr double kBase = 10000.0, kNormEps = 1e-5;

ModelConfig read_header(const Path& file, std::span<const std::byte> bytes) {
  if (bytes.size() < kHeaderBytes) refuse_file("too short for a model of llama2.c", file, "copy it again");
  std::array<std::int32_t, kNumbers> n;
  std::memcpy(n.data(), bytes.data(), kHeaderBytes);
  constexpr std::int32_t kMost = 1 << 20;
  for (std::size_t i = 0; i < kNumbers; ++i)
    if (n[i] == 0 || n[i] > kMost || (i == 5 ? n[i] < -kMost : n[i] < 0))
      refuse_file(fmt::format("number {} of the header is {}", i, n[i]), file, "a model file of llama2.c, version 0");
  if (n[2] > 1000 || n[0] % n[3] != 0 || n[3] % n[4] != 0)
    refuse_file(
        fmt::format("width {}, {} layers, {} heads and {} heads of keys do not fit together", n[0], n[2], n[3], n[4]),
        file, "a model file of llama2.c, version 0");
  ModelConfig config = ModelConfig::preset("llama");
  config.width = n[0];
  config.inner = n[1];
  config.layers.assign(static_cast<std::size_t>(n[2]), "softmax");
  config.heads = n[3];
  config.kv_heads = n[4];
  config.vocabulary = std::abs(n[5]);
  config.tied = n[5] > 0;
  config.max_length = n[6];
  config.norm_eps = kNormEps;
  config.rope_base = kBase;
  config.rope_pairs = RopePairs::adjacent;
  return config;
}

// A kind of weights in the file: one for each layer, or with `layers` 1 for the model.
struct Section {
  std::string name;                                 // of our parameter; "*" is the layer, empty: passed over
  std::int64_t layers = 1, first = 0, columns = 0;  // where it begins in ours, and how many columns it takes
  std::int64_t rows = 0;                            // inputs of a product; 0: a vector
};

std::vector<Section> sections_of(const ModelConfig& c) {
  const std::int64_t layers = std::ssize(c.layers), w = c.width, d = w / c.heads, keys = d * c.kv_heads;
  std::vector<Section> sections = {
      {"embedding.tokens", 1, 0, c.vocabulary, w},
      {"layers.*.attention_norm.gain", layers, 0, w},
      {"layers.*.attention.qkv.weight", layers, 0, w, w},
      {"layers.*.attention.qkv.weight", layers, w, keys, w},
      {"layers.*.attention.qkv.weight", layers, w + keys, keys, w},
      {"layers.*.attention.out.weight", layers, 0, w, w},
      {"layers.*.feed_forward_norm.gain", layers, 0, w},
      {"layers.*.feed_forward.in.weight", layers, 0, c.inner, w},
      {"layers.*.feed_forward.out.weight", layers, 0, w, c.inner},
      {"layers.*.feed_forward.in.weight", layers, c.inner, c.inner, w},
      {"final_norm.gain", 1, 0, w},
      {"", 1, 0, c.max_length * d},
  };
  if (!c.tied) sections.push_back({"head.weight", 1, 0, c.vocabulary, w});
  return sections;
}

std::int64_t numbers_in(const Section& section) {
  return section.layers * section.columns * std::max<std::int64_t>(1, section.rows);
}

Tensor parameter(const Model& model, std::string name, std::int64_t layer) {
  if (const std::size_t star = name.find('*'); star != std::string::npos) name.replace(star, 1, std::to_string(layer));
  for (const Parameter& p : model.parameters())
    if (p.name == name) return p.var.value();
  fail(ErrorCode::internal, fmt::format("a llama model without \"{}\"", name));
}

// The part of our parameter that a section fills, as the file has it: (out, in).
Tensor view_of(const Model& model, const Section& section, std::int64_t layer) {
  const Tensor whole = parameter(model, section.name, layer);
  if (section.rows == 0 || section.name == "embedding.tokens") return whole;
  return whole.slice(1, section.first, section.first + section.columns).transpose(0, 1);
}

std::optional<Tokenizer> tokenizer_beside(const Path& file, const ModelConfig& config) {
  for (const std::string& name : {fmt::format("tok{}.bin", config.vocabulary), std::string("tokenizer.bin")}) {
    const Path path = file.parent_path() / name;
    if (is_there(path)) return Tokenizer::load(path.string());
  }
  return {};
}

}  // namespace

Imported import_llama2c(Context& context, const Path& file) {
  const MappedFile mapped(file);
  const ModelConfig config = read_header(file, mapped.bytes());
  const std::vector<Section> sections = sections_of(config);
  std::size_t expected = kHeaderBytes;
  for (const Section& section : sections) expected += static_cast<std::size_t>(numbers_in(section)) * sizeof(float);
  if (mapped.bytes().size() != expected)
    refuse_file(fmt::format("the file has {} bytes, a model of its sizes has {}", mapped.bytes().size(), expected),
                file, "copy it again");
  Imported out{.model = Model(context, config), .architecture = "llama2.c"};
  auto* values = reinterpret_cast<float*>(mapped.bytes().data() + kHeaderBytes);
  for (const Section& section : sections) {
    const std::int64_t each = numbers_in(section) / section.layers;
    for (std::int64_t layer = 0; layer < section.layers; ++layer, values += each)
      if (!section.name.empty()) {
        const Tensor view = view_of(out.model, section, layer);
        view.copy_from(Tensor::wrap(values, view.shape(), DType::f32, mapped.owner()));
      }
  }
  out.tokenizer = tokenizer_beside(file, config);
  if (out.tokenizer && out.tokenizer->vocabulary() > config.vocabulary)
    refuse_file(fmt::format("a tokeniser of {} ids for a model of {}", out.tokenizer->vocabulary(), config.vocabulary),
                file, "the tokeniser the model was trained with");
  return out;
}

}  // namespace fovea::pretrained
