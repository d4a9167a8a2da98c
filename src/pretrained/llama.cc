#include <fmt/format.h>

#include <algorithm>

#include "pretrained/architecture.h"

namespace fovea::pretrained {
namespace {

constexpr double kUsualBase = 10000.0;

ModelConfig frame() { return ModelConfig::preset("llama"); }

double number_of(const ConfigFields& f, const Json& section, const char* name) {
  if (!section.contains(name) || !section[name].is_number())
    f.refuse(fmt::format("does not say \"{}\"", name), "rope_scaling");
  return section[name].get<double>();
}

// {"rope_type": "linear" or "llama3", "factor": ..., ...}; older files say "type".
void read_stretch(const ConfigFields& f, const Json& section, ModelConfig& c) {
  const Json kind = section.contains("rope_type") ? section["rope_type"] : section.value("type", Json("default"));
  if (kind == "default") return;
  if (kind != "linear" && kind != "llama3")
    f.refuse(fmt::format("is of type {}, which is not built", kind.dump()), "rope_scaling", "linear or llama3");
  RopeStretch stretch;
  stretch.factor = number_of(f, section, "factor");
  if (kind == "llama3") {
    constexpr double kMost = 1 << 30;
    stretch.low = number_of(f, section, "low_freq_factor");
    stretch.high = number_of(f, section, "high_freq_factor");
    stretch.length =
        static_cast<std::int64_t>(std::clamp(number_of(f, section, "original_max_position_embeddings"), 1.0, kMost));
  }
  c.rope_stretch = stretch;
}

Json stretch_json(const RopeStretch& stretch) {
  if (stretch.length == 0) return {{"rope_type", "linear"}, {"factor", stretch.factor}};
  return {{"rope_type", "llama3"},
          {"factor", stretch.factor},
          {"low_freq_factor", stretch.low},
          {"high_freq_factor", stretch.high},
          {"original_max_position_embeddings", stretch.length}};
}

// The base stands beside the rest in older files, in "rope_parameters" with it in newer ones.
void rope_fields(ConfigFields& f, ModelConfig& c) {
  f.real("rope_theta", c.rope_base, kUsualBase);
  if (!f.reading()) {
    if (c.rope_stretch) f.write("rope_scaling", stretch_json(*c.rope_stretch));
    return;
  }
  for (const char* name : {"rope_scaling", "rope_parameters"}) {
    const Json* given = f.find(name);
    if (given == nullptr) continue;
    if (!given->is_object()) f.refuse("is not an object", name);
    read_stretch(f, *given, c);
    if (given->contains("rope_theta")) c.rope_base = number_of(f, *given, "rope_theta");
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

constexpr NamePair kNames[] = {
    {"embedding.tokens", "embed_tokens.weight"},
    {"layers.*.attention_norm", "layers.*.input_layernorm", Kind::norm},
    {"layers.*.attention.qkv", "layers.*.self_attn.{q_proj,k_proj,v_proj}", Kind::linear},
    {"layers.*.attention.out", "layers.*.self_attn.o_proj", Kind::linear},
    {"layers.*.feed_forward_norm", "layers.*.post_attention_layernorm", Kind::norm},
    {"layers.*.feed_forward.in", "layers.*.mlp.{gate_proj,up_proj}", Kind::linear},
    {"layers.*.feed_forward.out", "layers.*.mlp.down_proj", Kind::linear},
    {"final_norm", "norm", Kind::norm},
};
constexpr NamePair kHead[] = {{"head", "lm_head", Kind::linear}};

constexpr Variant kVariants[] = {
    {.name = "LlamaForCausalLM", .task = Task::lm, .prefixed = true, .names = kHead, .head = "lm_head.weight"}};

constexpr std::string_view kSpare[] = {"*.rotary_emb.inv_freq", "lm_head.weight"};

}  // namespace

const Architecture kLlama = {.format = "llama",
                             .prefix = "model.",
                             .tokens = "embed_tokens.weight",
                             .frame = frame,
                             .fields = fields,
                             .names = kNames,
                             .variants = kVariants,
                             .spare = kSpare};

}  // namespace fovea::pretrained
