#include <fmt/format.h>

#include <charconv>
#include <span>

#include "core/name_list.h"
#include "fovea/mechanism.h"
#include "fovea/model.h"
#include "io/field_visitor.h"
#include "nn/scope.h"

namespace fovea {
namespace {

constexpr std::int64_t kMaxLayers = 1000;

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

void expand_one(std::string_view entry, std::vector<std::string>& layers) {
  const auto [mechanism, count] = parse_repeated(entry);
  if (mechanism.empty()) fail(ErrorCode::usage, "a layer without a mechanism", {}, "for example \"diag/norm*2\"");
  if (static_cast<std::int64_t>(layers.size()) + count > kMaxLayers)
    fail(ErrorCode::usage, fmt::format("more than {} layers", kMaxLayers));
  layers.insert(layers.end(), static_cast<std::size_t>(count), std::string(mechanism));
}

// "diag/norm*2"
void expand(std::string_view text, std::vector<std::string>& layers) {
  for (std::size_t slash = text.find('/'); slash != std::string_view::npos; slash = text.find('/')) {
    expand_one(text.substr(0, slash), layers);
    text.remove_prefix(slash + 1);
  }
  expand_one(text, layers);
}

// As files have them: an element is a mechanism or, too, several layers. Commas within one may have divided it.
std::vector<std::string> expand_list(const std::vector<std::string>& elements) {
  const std::string joined = fmt::format("{}", fmt::join(elements, ","));
  std::vector<std::string> layers;
  for (const std::string_view element : split_names(joined)) expand(element, layers);
  return layers;
}

void check_mechanisms(const std::vector<std::string>& layers, const char* field) {
  for (std::size_t i = 0; i < layers.size(); ++i) {
    try {
      Mechanism::parse(layers[i]);
    } catch (const Error& e) {
      throw Error(e.code(), e.message(), fmt::format("{}[{}]", field, i), e.hint());
    }
  }
}

std::vector<std::string_view> activation_names() {
  return {"identity",     "relu", "gelu",    "gelu_tanh",  "silu",         "elu",
          "elu_plus_one", "tanh", "sigmoid", "gelu_quick", "relu_squared", "swish"};
}

// What a task needs and the config leaves out.
void add_sections(ModelConfig& config) {
  const StackConfig& first = config;
  if (config.task == Task::forecast && !config.series) config.series.emplace();
  const bool informer = config.task == Task::forecast && config.series->kind == Forecaster::informer;
  if ((config.task == Task::seq2seq || informer) && !config.decoder) {
    config.decoder = first;
    config.decoder->causal = true;
    config.cross.clear();
  }
  if (config.decoder && config.decoder->cross.empty()) config.decoder->cross = {"softmax"};
  if ((config.task == Task::vision || config.task == Task::image_text) && !config.image) config.image.emplace();
  if (config.task == Task::image_text && !config.image_stack) {
    config.image_stack = first;
    config.image_stack->causal = config.image_stack->gated_cross = false;
    config.image_stack->cross.clear();
  }
}

void check_towers(const ModelConfig& config) {
  if (!config.image_stack->cross.empty())
    fail(ErrorCode::usage, "the stack that reads pictures has nothing else to attend to", "image_stack.cross",
         "cross, of the stack that reads texts");
  if (config.causal && (config.pooling == Pooling::cls || config.pooling == Pooling::first))
    fail(ErrorCode::usage, "the first row of a causal stack has seen nothing of the text", "pooling", "last or mean");
}

}  // namespace

std::vector<std::string> parse_layers(std::string_view text) {
  const std::vector<std::string_view> models = split_names(text);
  if (models.size() > 1)
    fail(ErrorCode::usage, fmt::format("\"{}\" has commas, and they are between models that are compared", text),
         "attention",
         fmt::format("\"{}\" for the layers of one model; several models: fovea compare", fmt::join(models, "/")));
  std::vector<std::string> layers;
  expand(text, layers);
  return layers;
}

std::span<const PositionKind> position_kinds() { return kPositions; }

std::vector<std::string_view> pooling_names() { return {"mean", "cls", "first", "last"}; }

void StackConfig::check() {
  for (const auto& [name, size] : {std::pair("width", width), std::pair("heads", heads), std::pair("inner", inner)})
    if (size < 1) fail(ErrorCode::usage, fmt::format("must be at least 1, got {}", size), name);
  if (layers.empty()) fail(ErrorCode::usage, "a model needs at least one layer", "layers");
  layers = expand_list(layers);
  check_mechanisms(layers, "layers");
  if (!cross.empty()) cross = expand_list(cross);
  check_mechanisms(cross, "cross");
  if (cross.size() > 1 && cross.size() != layers.size())
    fail(ErrorCode::usage, fmt::format("{} mechanisms for {} layers", cross.size(), layers.size()), "cross",
         "one for each layer, or one for all");
  if (head_width == 0 && width % heads != 0)
    fail(ErrorCode::usage, fmt::format("{} heads do not divide the width {}", heads, width), "heads",
         "a divisor of the width");
  if (width % norm_groups != 0)
    fail(ErrorCode::usage, fmt::format("{} groups do not divide the width {}", norm_groups, width), "norm_groups",
         "a divisor of the width");
  if (heads % key_heads() != 0)
    fail(ErrorCode::usage, fmt::format("{} heads of keys do not divide {} heads", kv_heads, heads), "kv_heads",
         "a divisor of the heads");
  if (gated_cross && placement == NormPlacement::post)
    fail(ErrorCode::usage, "a closed gate leaves the rows as they are, a norm after it would not", "gated_cross",
         "placement pre");
}

void ImageConfig::check() const {
  if (height % patch != 0 || width % patch != 0)
    fail(ErrorCode::usage, fmt::format("patches of {} x {} do not cover {} x {} pixels", patch, patch, height, width),
         "patch", "a divisor of height and width");
}

void ModelConfig::check() {
  if (task == Task::lm) causal = true;
  add_sections(*this);
  StackConfig::check();
  if (!cross.empty() && task != Task::image_text)
    fail(ErrorCode::usage, "this stack has nothing else to attend to", "cross", "decoder.cross, for seq2seq");
  if (max_length < 1) fail(ErrorCode::usage, fmt::format("must be at least 1, got {}", max_length), "max_length");
  if (decoder) nn::within("decoder", [&] { decoder->check(); });
  if (image_stack) nn::within("image_stack", [&] { image_stack->check(); });
  if (image) nn::within("image", [&] { image->check(); });
  if (series) nn::within("series", [&] { series->check(); });
  if (task == Task::image_text) check_towers(*this);
  if (task == Task::seq2seq && shared_embedding && decoder->width != width)
    fail(ErrorCode::usage,
         fmt::format("the encoder's width is {}, the decoder's {}: they cannot share an embedding", width,
                     decoder->width),
         "decoder.width", fmt::format("{}, or shared_embedding=false", width));
  if (task == Task::seq2seq && shared_embedding && decoder_vocabulary > 0)
    fail(ErrorCode::usage, "encoder and decoder can share an embedding only of the same vocabulary", "shared_embedding",
         "false");
}

void StackConfig::fields(FieldVisitor& v) {
  v("width", width, "size of a token's vector", between(1, 1 << 16));
  v("heads", heads, "attention heads", between(1, 1 << 12));
  v("kv_heads", kv_heads, "heads of keys and values; 0: as many as heads", between(0, 1 << 12));
  v("head_width", head_width, "size of a head; 0: width / heads", between(0, 1 << 16));
  v("layers", layers, "mechanism of each layer: \"diag:block=64\", \"norm*2\"");
  v("cross", cross, "mechanism of the cross-attention of each layer, or one for all");
  v("gated_cross", gated_cross, "cross-attention enters through a learned gate that starts closed");
  v("causal", causal, "tokens read no later one");
  v("norm", norm, "kind of norm", one_of({"layer", "rms", "rms_a", "batch", "instance", "group"}));
  v("norm_eps", norm_eps, "epsilon of the norms", above(0));
  v("norm_affine", norm_affine, "norms have learned gains");
  v("norm_groups", norm_groups, "of a group norm; must divide the width", between(1, 1 << 16));
  v("placement", placement, "norm before or after each sub-layer", one_of({"pre", "post"}));
  v("feed_forward", feed_forward, "plain or gated feed-forward layers", one_of({"ffn", "glu"}));
  v("inner", inner, "hidden size of the feed-forward layers", between(1, 1 << 20));
  v("activation", activation, "of the feed-forward layers", one_of(activation_names()));
  v("experts", experts, "feed-forward layers of which each token takes one; 0: one for all", between(0, 1 << 12));
  v("expert_capacity", expert_capacity, "tokens an expert takes, as a multiple of an even share", above(0));
  v("expert_balance", expert_balance, "weight of the loss that spreads tokens evenly", at_least(0));
  v("bias", bias, "products in attention and feed-forward layers have biases");
  v("weight_norm", weight_norm, "weights of products are direction times length");
  v("positions", positions, "how positions enter", one_of(position_names()));
  v("rope_base", rope_base, "base of the angles of rope", above(0));
  v("rope_pairs", rope_pairs, "channels that rope turns together", one_of({"adjacent", "halves"}));
  v("rope_stretch", rope_stretch, "slower angles, for longer sequences");
  v("buckets", buckets, "of t5 positions", between(2, 1 << 16));
  v("bucket_distance", bucket_distance, "from which on t5 positions are all the same", between(1, 1 << 24));
  v("attention_scale", attention_scale, "factor on scores; 0: 1 / sqrt(head width)", at_least(0));
  v("init_deviation", init_deviation, "of normal initial weights; 0: uniform, by their sizes", between(0, 10));
  v("dropout", dropout, "on embeddings and sub-layer outputs", between(0, 0.99));
  v("inner_dropout", inner_dropout, "inside the feed-forward layers", between(0, 0.99));
  v("attention_dropout", attention_dropout, "on attention weights, where there are weights", between(0, 0.99));
  v("lora", lora, "rank of adapters beside the weights of its layers, which alone are trained; 0: none",
    between(0, 1 << 12));
  v("lora_scale", lora_scale, "factor on what the adapters add", above(0));
}

void RopeStretch::check() const {
  if (low >= high) fail(ErrorCode::usage, fmt::format("{} is not above low, {}", high, low), "high");
}

void RopeStretch::fields(FieldVisitor& v) {
  v("factor", factor, "by which angles grow more slowly", above(0));
  v("low", low, "turns in `length` below which they do", above(0));
  v("high", high, "turns in `length` above which they do not", above(0));
  v("length", length, "0: all angles do", between(0, 1 << 30));
}

void ImageConfig::fields(FieldVisitor& v) {
  v("height", height, "of pictures; 0: taken from the data", between(0, 1 << 16));
  v("width", width, "of pictures; 0: taken from the data", between(0, 1 << 16));
  v("channels", channels, "of pictures; 0: taken from the data", between(0, 1 << 12));
  v("patch", patch, "side of the squares that are read as one", between(1, 1 << 12));
}

void ModelConfig::fields(FieldVisitor& v) {
  constexpr double kMost = 1 << 24;
  v("task", task, "what is asked of the model", one_of(task_names()));
  v("vocabulary", vocabulary, "number of token ids; 0: taken from the data", between(0, kMost));
  v("classes", classes, "number of classes; 0: taken from the data", between(0, kMost));
  v("pairs", pairs, "of regress: the number is of two texts");
  v("max_length", max_length, "longest sequence", between(1, kMost));
  StackConfig::fields(v);
  v("embedding_scale", embedding_scale, "factor on token embeddings", above(0));
  v("embedding_norm", embedding_norm, "a norm after the embedding");
  v("types", types, "parts of a text that have a vector of their own", between(0, 1 << 16));
  v("position_offset", position_offset, "rows of a learned position table before position 0", between(0, 1 << 16));
  v("pooling", pooling, "what the classifier reads", one_of(pooling_names()));
  v("unit_features", unit_features, "vectors of whole inputs have length 1, in encode");
  v("classifier_hidden", classifier_hidden, "hidden size of the classifier; 0: none", between(0, 1 << 20));
  v("classifier_activation", classifier_activation, "of its hidden layer", one_of(activation_names()));
  v("tied", tied, "a language model's head uses the embedding");
  v("head_bias", head_bias, "a language model's head has a bias");
  v("head_transform", head_transform, "a product, activation and norm before that head");
  v("head_scale", head_scale, "factor on what enters that head", above(0));
  v("embedding_size", embedding_size, "of the vectors that image_text compares", between(1, 1 << 16));
  v("decoder", decoder, "the second stack of seq2seq, and of forecast by an informer");
  v("decoder_vocabulary", decoder_vocabulary, "of the decoder; 0: the encoder's", between(0, kMost));
  v("decoder_max_length", decoder_max_length, "of the decoder; 0: the encoder's", between(0, kMost));
  v("shared_embedding", shared_embedding, "encoder and decoder use one table");
  v("image_stack", image_stack, "the stack of image_text that reads pictures");
  v("image", image, "pictures and their patches");
  v("series", series, "measurements and what foretells them");
  v("frozen", frozen, "parts whose parameters are not trained: embedding, layers.0, ...");
  v("dtype", dtype, "of activations", one_of({"f32", "bf16", "f16", "f64"}));
  v("checkpointing", checkpointing, "run layers again in backward instead of keeping their activations");
}

}  // namespace fovea
