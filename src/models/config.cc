#include <fmt/format.h>

#include <charconv>
#include <span>

#include "core/nearest.h"
#include "fovea/mechanism.h"
#include "fovea/model.h"
#include "io/field_visitor.h"

namespace fovea {
namespace {

constexpr std::int64_t kMaxLayers = 1000;

constexpr std::string_view kPresets[] = {"transformer", "transnormer-t1", "transnormer-t2"};

constexpr PositionKind kPositions[] = {
    {"none", "tokens do not know where they stand", ""},
    {"sinusoidal", "sines and cosines of the position, added to the tokens", "Vaswani et al. 2017"},
    {"learned", "a learned vector for every position, added to the tokens", "Gehring et al. 2017"},
    {"rope", "queries and keys turned by angles that grow with the position", "Su et al. 2021"},
    {"alibi", "scores fall with the distance, in every head at another rate", "Press et al. 2022"},
    {"t5", "a learned bias for every bucket of distances", "Raffel et al. 2020"},
    {"shaw", "learned keys and values of the clipped distance", "Shaw et al. 2018"},
    {"xl", "scores of content and of distance, each with a learned bias", "Dai et al. 2019"},
};

std::vector<std::string_view> position_names() {
  std::vector<std::string_view> names;
  for (const PositionKind& kind : kPositions) names.push_back(kind.name);
  return names;
}

// TransNormer on the Long-Range Arena: local attention first, then linear attention. GLU 85 has as many parameters as
// the FFN 128 of the transformer preset.
ModelConfig transnormer(std::string local, std::string global) {
  ModelConfig config;
  config.layers = {std::move(local), std::move(global)};
  config.feed_forward = FeedForward::glu;
  config.inner = 85;
  config.activation = Activation::silu;
  return config;
}

// One entry of a layer list: "norm*2" -> {"norm", 2}.
struct Repeated {
  std::string_view mechanism;
  std::int64_t count = 1;
};

Repeated parse_repeated(std::string_view text) {
  const std::size_t star = text.rfind('*');
  if (star == std::string_view::npos) return {text, 1};
  const std::string_view digits = text.substr(star + 1);
  std::int64_t count = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), count);
  if (error != std::errc() || end != digits.data() + digits.size() || count < 1 || count > kMaxLayers)
    fail(ErrorCode::usage, fmt::format("\"{}\" repeats a layer \"{}\" times", text, digits), {},
         fmt::format("a number from 1 to {}: \"norm*2\"", kMaxLayers));
  return {text.substr(0, star), count};
}

// Where the entry that starts `text` ends. A piece such as "weights=rela" belongs to the mechanism before it.
std::size_t entry_end(std::string_view text) {
  std::size_t comma = text.find(',');
  while (comma != std::string_view::npos) {
    const std::string_view next = text.substr(comma + 1, text.find(',', comma + 1) - comma - 1);
    if (next.find('=') == std::string_view::npos || next.find(':') < next.find('=')) return comma;
    comma = text.find(',', comma + 1);
  }
  return text.size();
}

void expand(std::string_view entry, std::vector<std::string>& layers) {
  const auto [mechanism, count] = parse_repeated(entry);
  if (mechanism.empty()) fail(ErrorCode::usage, "a layer without a mechanism", {}, "for example \"diag*1,norm*1\"");
  if (static_cast<std::int64_t>(layers.size()) + count > kMaxLayers)
    fail(ErrorCode::usage, fmt::format("more than {} layers", kMaxLayers));
  layers.insert(layers.end(), static_cast<std::size_t>(count), std::string(mechanism));
}

void check_mechanisms(const std::vector<std::string>& layers) {
  for (std::size_t i = 0; i < layers.size(); ++i) {
    try {
      Mechanism::parse(layers[i]);
    } catch (const Error& e) {
      throw Error(e.code(), e.message(), fmt::format("layers[{}]", i), e.hint());
    }
  }
}

}  // namespace

std::vector<std::string> parse_layers(std::string_view text) {
  std::vector<std::string> layers;
  while (true) {
    const std::size_t end = entry_end(text);
    expand(text.substr(0, end), layers);
    if (end == text.size()) return layers;
    text.remove_prefix(end + 1);
  }
}

std::vector<std::string_view> ModelConfig::preset_names() { return {std::begin(kPresets), std::end(kPresets)}; }

ModelConfig ModelConfig::preset(std::string_view name) {
  if (name == "transformer") return {};
  if (name == "transnormer-t1") return transnormer("diag:block=64,weights=rela,norm=rms", "norm:map=elu");
  if (name == "transnormer-t2") return transnormer("diag:block=64,weights=softmax", "norm:map=elu+1");
  ModelConfig config;
  const std::vector<std::string> layers = parse_layers(name);
  if (layers.size() == 1 && name.find('*') == std::string_view::npos) {
    const std::string_view mechanism = name.substr(0, name.find(':'));
    std::vector<std::string_view> known = mechanism_names();
    if (std::find(known.begin(), known.end(), mechanism) == known.end()) {
      known.insert(known.begin(), std::begin(kPresets), std::end(kPresets));
      fail(ErrorCode::usage, fmt::format("unknown attention \"{}\"", name), "attention", name_hint(mechanism, known));
    }
    config.layers.assign(config.layers.size(), layers[0]);
  } else {
    config.layers = layers;
  }
  config.check();
  for (const std::string& layer : config.layers)
    if (!Mechanism::parse(layer).supports(Feature::bidirectional)) config.causal = true;
  return config;
}

std::span<const PositionKind> position_kinds() { return kPositions; }

void ModelConfig::check() {
  for (const auto& [name, size] : {std::pair("width", width), std::pair("heads", heads), std::pair("inner", inner),
                                   std::pair("max_length", max_length)})
    if (size < 1) fail(ErrorCode::usage, fmt::format("must be at least 1, got {}", size), name);
  if (layers.empty()) fail(ErrorCode::usage, "a model needs at least one layer", "layers");
  layers = parse_layers(fmt::format("{}", fmt::join(layers, ",")));
  check_mechanisms(layers);
  if (width % heads != 0)
    fail(ErrorCode::usage, fmt::format("{} heads do not divide the width {}", heads, width), "heads",
         "a divisor of the width");
  if (dtype == DType::f16)
    fail(ErrorCode::unsupported, "models do not run in f16: it would need loss scaling", "dtype", "bf16");
}

void ModelConfig::fields(FieldVisitor& v) {
  constexpr double kMost = 1 << 24;
  v("vocabulary", vocabulary, "number of token ids; 0: taken from the data", between(0, kMost));
  v("classes", classes, "number of classes; 0: taken from the data", between(0, kMost));
  v("max_length", max_length, "longest sequence", between(1, kMost));
  v("width", width, "size of a token's vector", between(1, 1 << 16));
  v("heads", heads, "attention heads; must divide the width", between(1, 1 << 12));
  v("layers", layers, "mechanism of each layer: \"diag:block=64\", \"norm*2\"");
  v("causal", causal, "tokens read no later one");
  v("norm", norm, "kind of norm", one_of({"layer", "rms", "rms_a"}));
  v("norm_eps", norm_eps, "epsilon of the norms", above(0));
  v("norm_affine", norm_affine, "norms have learned gains");
  v("placement", placement, "norm before or after each sub-layer", one_of({"pre", "post"}));
  v("feed_forward", feed_forward, "plain or gated feed-forward layers", one_of({"ffn", "glu"}));
  v("inner", inner, "hidden size of the feed-forward layers", between(1, 1 << 20));
  v("activation", activation, "of the feed-forward layers",
    one_of({"identity", "relu", "gelu", "gelu_tanh", "silu", "elu", "elu_plus_one", "tanh", "sigmoid"}));
  v("positions", positions, "how positions enter", one_of(position_names()));
  v("embedding_scale", embedding_scale, "factor on token embeddings", above(0));
  v("pooling", pooling, "what the classifier reads", one_of({"mean", "cls"}));
  v("classifier_hidden", classifier_hidden, "hidden size of the classifier; 0: none", between(0, 1 << 20));
  v("dropout", dropout, "on embeddings and sub-layer outputs", between(0, 0.99));
  v("inner_dropout", inner_dropout, "inside the feed-forward layers", between(0, 0.99));
  v("attention_dropout", attention_dropout, "on attention weights, where there are weights", between(0, 0.99));
  v("dtype", dtype, "of activations", one_of({"f32", "bf16", "f16", "f64"}));
  v("checkpointing", checkpointing, "run layers again in backward instead of keeping their activations");
}

}  // namespace fovea
