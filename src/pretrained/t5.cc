#include <fmt/format.h>

#include <cmath>

#include "pretrained/architecture.h"

namespace fovea::pretrained {
namespace {

constexpr std::int64_t kUsualLength = 512;  // T5 has no longest input; files tell it only to the tokeniser

ModelConfig frame() {
  ModelConfig config = ModelConfig::preset("t5");
  config.max_length = kUsualLength;
  return config;
}

// "relu", "gated-gelu"; the last one is the approximation by tanh.
void feed_forward_fields(ConfigFields& f, ModelConfig& c) {
  constexpr const char* kName = "feed_forward_proj";
  constexpr std::string_view kGated = "gated-";
  if (!f.reading()) {
    const bool gated = c.feed_forward == FeedForward::glu;
    const std::string name = gated && c.activation == Activation::gelu_tanh ? "gelu" : activation_name(c.activation);
    return f.write(kName, gated ? std::string(kGated) + name : name);
  }
  const Json* given = f.find(kName);
  std::string text = given != nullptr && given->is_string() ? given->get<std::string>() : "relu";
  c.feed_forward = text.starts_with(kGated) ? FeedForward::glu : FeedForward::ffn;
  if (text == "gated-gelu") text = "gated-gelu_new";
  const auto activation = parse_activation(text.starts_with(kGated) ? text.substr(kGated.size()) : text);
  if (!activation) f.refuse(fmt::format("is \"{}\", which is not built", text), kName, "relu or gated-gelu");
  c.activation = *activation;
}

// Up to T5 1.0 the head is the embedding, on rows divided by sqrt(width); since then neither. Newer files say which of
// the two a model has; whether it is tied, the tensors say.
void head_fields(ConfigFields& f, ModelConfig& c) {
  const double divided = 1.0 / std::sqrt(static_cast<double>(c.width));
  bool scaled = c.head_scale != 1.0;
  f.flag("tie_word_embeddings", c.tied, true);
  f.flag("scale_decoder_outputs", scaled, c.tied);
  if (f.reading()) c.head_scale = scaled ? divided : 1.0;
}

void decoder_fields(ConfigFields& f, ModelConfig& c) {
  if (f.reading()) {
    c.decoder = static_cast<const StackConfig&>(c);
    c.decoder->causal = true;
  }
  if (f.reading() && f.find("num_decoder_layers") == nullptr) return;
  f.layers("num_decoder_layers", *c.decoder);
}

void fields(ConfigFields& f, ModelConfig& c) {
  f.integer("vocab_size", c.vocabulary);
  f.integer("n_positions", c.max_length, kUsualLength);
  f.integer("d_model", c.width);
  f.layers("num_layers", c);
  f.integer("num_heads", c.heads);
  f.integer("d_kv", c.head_width);
  f.integer("d_ff", c.inner);
  feed_forward_fields(f, c);
  f.integer("relative_attention_num_buckets", c.buckets, 32);
  f.integer("relative_attention_max_distance", c.bucket_distance, 128);
  f.real("layer_norm_epsilon", c.norm_eps, 1e-6);
  f.real("dropout_rate", c.dropout, 0.1);
  if (f.reading()) c.inner_dropout = c.attention_dropout = c.dropout;
  head_fields(f, c);
  decoder_fields(f, c);
  f.fixed("is_encoder_decoder", true);
  f.noted("decoder_start_token_id", 0);
  f.noted("pad_token_id", 0);
  f.noted("eos_token_id", 1);
  f.passed({"is_decoder", "is_gated_act", "dense_act_fn"});
}

bool gated(const ModelConfig& c) { return c.feed_forward == FeedForward::glu; }
bool plain(const ModelConfig& c) { return !gated(c); }

constexpr NamePair kNames[] = {
    {"encoder.embedding.tokens", "shared.weight"},
    {"encoder.shared.distances", "encoder.block.0.layer.0.SelfAttention.relative_attention_bias.weight"},
    {"encoder.layers.*.attention_norm", "encoder.block.*.layer.0.layer_norm", Kind::norm},
    {"encoder.layers.*.attention.qkv", "encoder.block.*.layer.0.SelfAttention.{q,k,v}", Kind::linear},
    {"encoder.layers.*.attention.out", "encoder.block.*.layer.0.SelfAttention.o", Kind::linear},
    {"encoder.layers.*.feed_forward_norm", "encoder.block.*.layer.1.layer_norm", Kind::norm},
    {"encoder.layers.*.feed_forward.in", "encoder.block.*.layer.1.DenseReluDense.wi", Kind::linear, plain},
    {"encoder.layers.*.feed_forward.in", "encoder.block.*.layer.1.DenseReluDense.{wi_0,wi_1}", Kind::linear, gated},
    {"encoder.layers.*.feed_forward.out", "encoder.block.*.layer.1.DenseReluDense.wo", Kind::linear},
    {"encoder.final_norm", "encoder.final_layer_norm", Kind::norm},
    {"decoder.shared.distances", "decoder.block.0.layer.0.SelfAttention.relative_attention_bias.weight"},
    {"decoder.layers.*.attention_norm", "decoder.block.*.layer.0.layer_norm", Kind::norm},
    {"decoder.layers.*.attention.qkv", "decoder.block.*.layer.0.SelfAttention.{q,k,v}", Kind::linear},
    {"decoder.layers.*.attention.out", "decoder.block.*.layer.0.SelfAttention.o", Kind::linear},
    {"decoder.layers.*.cross_norm", "decoder.block.*.layer.1.layer_norm", Kind::norm},
    {"decoder.layers.*.cross.q", "decoder.block.*.layer.1.EncDecAttention.q", Kind::linear},
    {"decoder.layers.*.cross.kv", "decoder.block.*.layer.1.EncDecAttention.{k,v}", Kind::linear},
    {"decoder.layers.*.cross.out", "decoder.block.*.layer.1.EncDecAttention.o", Kind::linear},
    {"decoder.layers.*.feed_forward_norm", "decoder.block.*.layer.2.layer_norm", Kind::norm},
    {"decoder.layers.*.feed_forward.in", "decoder.block.*.layer.2.DenseReluDense.wi", Kind::linear, plain},
    {"decoder.layers.*.feed_forward.in", "decoder.block.*.layer.2.DenseReluDense.{wi_0,wi_1}", Kind::linear, gated},
    {"decoder.layers.*.feed_forward.out", "decoder.block.*.layer.2.DenseReluDense.wo", Kind::linear},
    {"decoder.final_norm", "decoder.final_layer_norm", Kind::norm},
    {"head", "lm_head", Kind::linear},
};

constexpr Variant kVariants[] = {
    {.name = "T5ForConditionalGeneration", .task = Task::seq2seq, .prefixed = false, .head = "lm_head.weight"}};

constexpr std::string_view kSpare[] = {"encoder.embed_tokens.weight", "decoder.embed_tokens.weight", "lm_head.weight",
                                       "decoder.block.0.layer.1.EncDecAttention.relative_attention_bias.weight"};

}  // namespace

const Architecture kT5 = {.format = "t5",
                          .prefix = "",
                          .tokens = "shared.weight",
                          .frame = frame,
                          .fields = fields,
                          .names = kNames,
                          .variants = kVariants,
                          .spare = kSpare};

}  // namespace fovea::pretrained
