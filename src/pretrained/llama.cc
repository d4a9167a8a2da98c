#include <fmt/format.h>

#include "pretrained/architecture.h"

namespace fovea::pretrained {
namespace {

constexpr double kUsualBase = 10000.0;

ModelConfig frame() { return ModelConfig::preset("llama"); }

// The base stands beside the rest in older files, in "rope_parameters" with it in newer ones.
void rope_fields(ConfigFields& f, ModelConfig& c) {
  if (!f.reading()) return f.write("rope_theta", c.rope_base);
  f.real("rope_theta", c.rope_base, kUsualBase);
  for (const char* name : {"rope_scaling", "rope_parameters"}) {
    const Json* given = f.find(name);
    if (given == nullptr) continue;
    if (!given->is_object()) f.refuse("is not an object", name);
    const std::string kind = given->value("rope_type", given->value("type", "default"));
    if (kind != "default") f.refuse(fmt::format("is of type \"{}\", which is not built", kind), name, "default");
    c.rope_base = given->value("rope_theta", c.rope_base);
  }
}

void fields(ConfigFields& f, ModelConfig& c) {
  f.integer("vocab_size", c.vocabulary);
  f.integer("max_position_embeddings", c.max_length, 2048);
  f.integer("hidden_size", c.width);
  f.layers("num_hidden_layers", c);
  f.integer("num_attention_heads", c.heads);
  f.integer("num_key_value_heads", c.kv_heads, c.heads);
  f.integer("head_dim", c.head_width, c.width / std::max<std::int64_t>(1, c.heads));
  f.integer("intermediate_size", c.inner);
  f.activation("hidden_act", c.activation);
  f.real("rms_norm_eps", c.norm_eps, 1e-6);
  f.real("attention_dropout", c.attention_dropout, 0.0);
  f.flag("tie_word_embeddings", c.tied, false);
  rope_fields(f, c);
  bool inner_bias = c.bias;
  f.flag("attention_bias", c.bias, false);
  f.flag("mlp_bias", inner_bias, false);
  if (c.bias != inner_bias) f.refuse("differs from \"mlp_bias\", which is not built", "attention_bias", "both or none");
  f.passed({"pretraining_tp", "max_sequence_length"});
}

constexpr Rule kRules[] = {
    {"embedding.tokens", "embed_tokens.weight"},
    {"layers.*.attention_norm", "layers.*.input_layernorm", Kind::norm},
    {"layers.*.attention.qkv", "layers.*.self_attn.{q_proj,k_proj,v_proj}", Kind::linear},
    {"layers.*.attention.out", "layers.*.self_attn.o_proj", Kind::linear},
    {"layers.*.feed_forward_norm", "layers.*.post_attention_layernorm", Kind::norm},
    {"layers.*.feed_forward.in", "layers.*.mlp.{gate_proj,up_proj}", Kind::linear},
    {"layers.*.feed_forward.out", "layers.*.mlp.down_proj", Kind::linear},
    {"final_norm", "norm", Kind::norm},
};
constexpr Rule kHead[] = {{"head", "lm_head", Kind::linear}};

constexpr Variant kVariants[] = {
    {.name = "LlamaForCausalLM", .task = Task::lm, .prefixed = true, .rules = kHead, .head = "lm_head.weight"}};

constexpr std::string_view kSpare[] = {"*.rotary_emb.inv_freq", "lm_head.weight"};

}  // namespace

const Architecture kLlama = {.format = "llama",
                             .prefix = "model.",
                             .tokens = "embed_tokens.weight",
                             .frame = frame,
                             .fields = fields,
                             .rules = kRules,
                             .variants = kVariants,
                             .spare = kSpare};

}  // namespace fovea::pretrained
