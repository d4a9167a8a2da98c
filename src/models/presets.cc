#include <fmt/format.h>

#include <algorithm>

#include "core/nearest.h"
#include "fovea/mechanism.h"
#include "fovea/model.h"
#include "models/presets.h"

namespace fovea {
namespace {

// Without a mechanism of their own: what they name is the frame, and --attention fills it.
struct Preset {
  std::string_view name, summary;
  ModelConfig (*make)();
};

constexpr double kSmallDeviation = 0.02;

ModelConfig plain(Task task, std::int64_t width, std::int64_t layers) {
  ModelConfig config;
  config.task = task;
  config.width = width;
  config.heads = std::max<std::int64_t>(1, width / 64);
  config.inner = 4 * width;
  config.layers.assign(static_cast<std::size_t>(layers), "softmax");
  config.max_length = 1024;
  return config;
}

// A GLU of 2/3 of the hidden size has as many parameters as the plain layer.
void set_glu(StackConfig& stack, Activation activation) {
  if (stack.feed_forward != FeedForward::glu) stack.inner = 2 * stack.inner / 3;
  stack.feed_forward = FeedForward::glu;
  stack.activation = activation;
}

// The local attention of TransNormer in the first half of the layers, its linear attention in the others, and its GLU.
void set_transnormer(StackConfig& stack, std::string_view local, std::string_view global) {
  for (std::size_t i = 0; i < stack.layers.size(); ++i) stack.layers[i] = i < stack.layers.size() / 2 ? local : global;
  set_glu(stack, Activation::silu);
}

constexpr std::string_view kLocal1 = "diag:block=64,weights=rela,norm=rms", kGlobal1 = "norm:map=elu";
constexpr std::string_view kLocal2 = "diag:block=64,weights=softmax", kGlobal2 = "norm:map=elu+1";

// TransNormer on the Long-Range Arena.
ModelConfig transnormer(std::string_view local, std::string_view global) {
  ModelConfig config;
  set_transnormer(config, local, global);
  return config;
}

ModelConfig gpt_of(std::int64_t width, std::int64_t layers) {
  ModelConfig config = plain(Task::lm, width, layers);
  config.activation = Activation::gelu_tanh;
  config.init_deviation = kSmallDeviation;
  config.causal = true;
  return config;
}

ModelConfig gpt2_small() {
  ModelConfig config = gpt_of(768, 12);
  config.vocabulary = 50257;
  return config;
}

ModelConfig llama() {
  ModelConfig config = gpt_of(256, 4);
  config.norm = StackNorm::rms;
  config.positions = Positions::rope;
  config.rope_pairs = RopePairs::halves;
  config.kv_heads = config.heads / 2;
  config.bias = false;
  set_glu(config, Activation::silu);
  config.dropout = config.inner_dropout = config.attention_dropout = 0.0;
  return config;
}

ModelConfig transnormer_lm(std::string_view local, std::string_view global) {
  ModelConfig config = gpt_of(256, 4);
  set_transnormer(config, local, global);
  return config;
}

// Post-norm, no segments, masks drawn anew every time: RoBERTa.
ModelConfig roberta() {
  ModelConfig config = plain(Task::mlm, 256, 4);
  config.placement = NormPlacement::post;
  config.init_deviation = kSmallDeviation;
  config.embedding_norm = config.head_bias = config.head_transform = true;
  config.max_length = 512;
  config.pooling = Pooling::first;
  return config;
}

// The language models of the TransNormer paper, its table 13 with the two inner sizes put right: 1365 and 2048.
ModelConfig transnormer_alm() {
  ModelConfig config = gpt_of(512, 6);
  set_transnormer(config, kLocal2, kGlobal2);
  config.norm = StackNorm::rms;
  config.norm_affine = false;
  config.positions = Positions::rope;
  config.max_length = 512;
  config.inner_dropout = config.attention_dropout = 0.0;
  return config;
}

ModelConfig transnormer_blm() {
  ModelConfig config = plain(Task::mlm, 768, 12);
  set_transnormer(config, kLocal2, kGlobal2);
  config.norm = StackNorm::rms;
  config.norm_affine = false;
  config.placement = NormPlacement::post;
  config.init_deviation = kSmallDeviation;
  config.embedding_norm = config.head_bias = config.head_transform = true;
  config.positions = Positions::rope;
  config.max_length = 512;
  config.inner_dropout = 0.0;
  config.pooling = Pooling::first;
  return config;
}

ModelConfig seq2seq() {
  ModelConfig config = plain(Task::seq2seq, 256, 3);
  config.positions = Positions::sinusoidal;
  config.activation = Activation::relu;
  config.embedding_scale = 16.0;
  config.max_length = 512;
  return config;
}

ModelConfig t5() {
  ModelConfig config = plain(Task::seq2seq, 256, 3);
  config.norm = StackNorm::rms;
  config.norm_eps = 1e-6;
  config.positions = Positions::t5;
  config.activation = Activation::relu;
  config.attention_scale = 1.0;
  config.bias = false;
  config.head_scale = 1.0 / 16.0;
  config.max_length = 512;
  return config;
}

ModelConfig vit() {
  ModelConfig config = plain(Task::vision, 128, 6);
  config.heads = 4;
  config.norm_eps = 1e-6;
  config.pooling = Pooling::cls;
  config.classifier_hidden = 0;
  config.image = ImageConfig{};
  return config;
}

// A causal stack for texts that end in a token of their own, and one for pictures.
ModelConfig clip() {
  ModelConfig config = plain(Task::image_text, 128, 4);
  config.heads = 4;
  config.causal = true;
  config.pooling = Pooling::last;
  config.activation = Activation::gelu_quick;
  config.init_deviation = kSmallDeviation;
  config.dropout = config.inner_dropout = config.attention_dropout = 0.0;
  config.classifier_hidden = 0;
  config.max_length = 77;
  return config;
}

ModelConfig clip_cross() {
  ModelConfig config = clip();
  config.cross = {"softmax"};
  config.gated_cross = true;
  return config;
}

ModelConfig informer_forecast() {
  ModelConfig config = plain(Task::forecast, 512, 2);
  config.layers.assign(2, "informer");
  config.placement = NormPlacement::post;
  config.positions = Positions::sinusoidal;
  config.dropout = config.inner_dropout = config.attention_dropout = 0.05;
  config.series = SeriesConfig{};
  config.decoder = config;
  config.decoder->layers = {"informer"};
  config.decoder->causal = true;
  return config;
}

ModelConfig memformer_forecast() {
  ModelConfig config = plain(Task::forecast, 16, 1);
  config.heads = 4;
  config.inner = 128;
  config.norm = StackNorm::batch;
  config.placement = NormPlacement::post;
  config.dropout = config.inner_dropout = 0.3;
  config.attention_dropout = 0.0;
  config.series = SeriesConfig{.kind = Forecaster::memformer};
  return config;
}

constexpr Preset kPresets[] = {
    {"transformer", "a classifier of sequences; --attention puts any mechanism into it", [] { return ModelConfig{}; }},
    {"transnormer-t1", "TransNormer of the Long-Range Arena: local rela, then linear attention",
     [] { return transnormer(kLocal1, kGlobal1); }},
    {"transnormer-t2", "TransNormer of the Long-Range Arena: local softmax, then linear attention",
     [] { return transnormer(kLocal2, kGlobal2); }},
    {"gpt", "a small language model", [] { return gpt_of(256, 4); }},
    {"gpt2-small", "the language model GPT-2 in its smallest size", gpt2_small},
    {"llama", "a small language model with rope, RMS norms and gated layers", llama},
    {"transnormer-t1-lm", "a small language model of transnormer-t1", [] { return transnormer_lm(kLocal1, kGlobal1); }},
    {"transnormer-t2-lm", "a small language model of transnormer-t2", [] { return transnormer_lm(kLocal2, kGlobal2); }},
    {"transnormer-alm", "the language model of the TransNormer paper", transnormer_alm},
    {"transnormer-blm", "the masked language model of the TransNormer paper", transnormer_blm},
    {"roberta", "a small masked language model", roberta},
    {"seq2seq", "translates: an encoder and a decoder", seq2seq},
    {"t5", "translates, with relative positions", t5},
    {"vit", "a classifier of pictures, read in patches", vit},
    {"clip", "finds the picture of a text", clip},
    {"clip-cross", "finds the picture of a text that reads the picture", clip_cross},
    {"informer-forecast", "foretells measurements: Informer", informer_forecast},
    {"memformer-forecast", "foretells measurements: channels with a small memory", memformer_forecast},
};

}  // namespace

std::string_view preset_summary(std::string_view name) {
  for (const Preset& preset : kPresets)
    if (preset.name == name) return preset.summary;
  return {};
}

bool is_preset(std::string_view name) {
  const std::vector<std::string_view> names = ModelConfig::preset_names();
  return std::find(names.begin(), names.end(), name) != names.end();
}

std::vector<std::string_view> ModelConfig::preset_names() {
  std::vector<std::string_view> names;
  for (const Preset& preset : kPresets) names.push_back(preset.name);
  return names;
}

void ModelConfig::set_attention(std::string_view text) {
  if (text == "transnormer-t1" || text == "transnormer-t2") {
    const bool first = text == "transnormer-t1";
    for (StackConfig* stack : {static_cast<StackConfig*>(this), decoder ? &*decoder : nullptr})
      if (stack != nullptr) set_transnormer(*stack, first ? kLocal1 : kLocal2, first ? kGlobal1 : kGlobal2);
    return check();
  }
  const std::vector<std::string> wanted = parse_layers(text);
  if (wanted.size() > 1 || text.find('*') != std::string_view::npos) {
    layers = wanted;
  } else {
    const std::string_view mechanism = text.substr(0, text.find(':'));
    std::vector<std::string_view> known = mechanism_names();
    known.insert(known.end(), {"transnormer-t1", "transnormer-t2"});
    if (std::find(known.begin(), known.end(), mechanism) == known.end())
      fail(ErrorCode::usage, fmt::format("unknown attention \"{}\"", text), "attention", name_hint(mechanism, known));
    layers.assign(layers.size(), wanted[0]);
  }
  check();
  for (const std::string& layer : layers)
    if (!Mechanism::parse(layer).supports(Feature::bidirectional)) causal = true;
  if (decoder) decoder->layers.assign(decoder->layers.size(), layers[0]);
}

ModelConfig ModelConfig::preset(std::string_view name) {
  for (const Preset& preset : kPresets)
    if (preset.name == name) {
      ModelConfig config = preset.make();
      config.check();
      return config;
    }
  ModelConfig config;
  const std::string_view mechanism = name.substr(0, name.find_first_of(":*/,"));
  std::vector<std::string_view> known = mechanism_names();
  if (std::find(known.begin(), known.end(), mechanism) == known.end()) {
    const std::vector<std::string_view> presets = preset_names();
    known.insert(known.begin(), presets.begin(), presets.end());
    fail(ErrorCode::usage, fmt::format("unknown attention \"{}\"", name), "attention", name_hint(mechanism, known));
  }
  config.set_attention(name);
  return config;
}

}  // namespace fovea
