#include "pretrained/architecture.h"

namespace fovea::pretrained {
namespace {

ModelConfig frame() {
  ModelConfig config = ModelConfig::preset("vit");
  config.inner_dropout = 0.0;
  config.classifier_activation = Activation::tanh;
  return config;
}

// One number for a square, or [height, width].
void size_field(ConfigFields& f, ImageConfig& image) {
  constexpr const char* kName = "image_size";
  if (!f.reading() && image.height != image.width) return f.write(kName, {image.height, image.width});
  const Json* given = f.reading() ? f.find(kName) : nullptr;
  if (given == nullptr || !given->is_array()) {
    f.integer(kName, image.height);
    image.width = image.height;
    return;
  }
  if (given->size() != 2 || !(*given)[0].is_number_integer() || !(*given)[1].is_number_integer())
    f.refuse("is neither a size nor [height, width]", kName);
  image.height = (*given)[0].get<std::int64_t>();
  image.width = (*given)[1].get<std::int64_t>();
}

void fields(ConfigFields& f, ModelConfig& c) {
  size_field(f, *c.image);
  f.integer("patch_size", c.image->patch);
  f.integer("num_channels", c.image->channels, 3);
  f.integer("hidden_size", c.width);
  f.layers("num_hidden_layers", c);
  f.integer("num_attention_heads", c.heads);
  f.integer("intermediate_size", c.inner);
  f.activation("hidden_act", c.activation);
  f.real("layer_norm_eps", c.norm_eps, 1e-12);
  f.real("hidden_dropout_prob", c.dropout, 0.0);
  f.real("attention_probs_dropout_prob", c.attention_dropout, 0.0);
  f.fixed("qkv_bias", true);
  f.fixed("pooler_act", "tanh");
  f.fixed("pooler_output_size", c.width);
  f.passed({"encoder_stride"});
}

void pooled(ConfigFields&, ModelConfig& c) { c.classifier_hidden = c.width; }

void classified(ConfigFields& f, ModelConfig& c) {
  f.classes(c);
  c.classifier_hidden = 0;
}

constexpr NamePair kNames[] = {
    {"embedding.front", "embeddings.cls_token", Kind::framed},
    {"embedding.positions", "embeddings.position_embeddings", Kind::framed},
    {"embedding.patches", "embeddings.patch_embeddings.projection", Kind::patches},
    {"layers.*.attention_norm", "encoder.layer.*.layernorm_before", Kind::norm},
    {"layers.*.attention.qkv", "encoder.layer.*.attention.attention.{query,key,value}", Kind::linear},
    {"layers.*.attention.out", "encoder.layer.*.attention.output.dense", Kind::linear},
    {"layers.*.feed_forward_norm", "encoder.layer.*.layernorm_after", Kind::norm},
    {"layers.*.feed_forward.in", "encoder.layer.*.intermediate.dense", Kind::linear},
    {"layers.*.feed_forward.out", "encoder.layer.*.output.dense", Kind::linear},
    {"final_norm", "layernorm", Kind::norm},
    {"classifier.hidden", "pooler.dense", Kind::linear},
};
constexpr NamePair kClasses[] = {{"classifier.out", "classifier", Kind::linear}};

constexpr Variant kVariants[] = {
    {.name = "ViTForImageClassification",
     .task = Task::vision,
     .prefixed = true,
     .fields = classified,
     .names = kClasses},
    {.name = "ViTModel", .task = Task::encode, .prefixed = false, .fields = pooled},
};

constexpr std::string_view kSpare[] = {"*pooler.dense.*", "embeddings.mask_token", "vit.embeddings.mask_token"};

}  // namespace

const Architecture kVit = {.format = "vit",
                           .prefix = "vit.",
                           .tokens = "",
                           .frame = frame,
                           .fields = fields,
                           .names = kNames,
                           .variants = kVariants,
                           .spare = kSpare};

}  // namespace fovea::pretrained
