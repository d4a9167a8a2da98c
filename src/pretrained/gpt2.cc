#include "pretrained/architecture.h"

namespace fovea::pretrained {
namespace {

ModelConfig frame() {
  ModelConfig config = ModelConfig::preset("gpt");
  config.inner_dropout = 0.0;
  return config;
}

void fields(ConfigFields& f, ModelConfig& c) {
  f.integer("vocab_size", c.vocabulary);
  f.integer("n_positions", c.max_length);
  f.integer("n_embd", c.width);
  f.layers("n_layer", c);
  f.integer("n_head", c.heads);
  f.integer("n_inner", c.inner, 4 * c.width);
  f.activation("activation_function", c.activation);
  f.real("layer_norm_epsilon", c.norm_eps, 1e-5);
  f.real("resid_pdrop", c.dropout, 0.1);
  f.noted("embd_pdrop", c.dropout);
  f.real("attn_pdrop", c.attention_dropout, 0.1);
  f.flag("tie_word_embeddings", c.tied, true);
  f.fixed("scale_attn_weights", true);
  f.fixed("scale_attn_by_inverse_layer_idx", false);
  f.fixed("add_cross_attention", false);
  f.passed({"n_ctx", "n_special", "predict_special_tokens", "reorder_and_upcast_attn", "summary_activation",
            "summary_first_dropout", "summary_proj_to_labels", "summary_type", "summary_use_proj"});
}

constexpr NamePair kNames[] = {
    {"embedding.tokens", "wte.weight"},
    {"embedding.positions", "wpe.weight"},
    {"layers.*.attention_norm", "h.*.ln_1", Kind::norm},
    {"layers.*.attention.qkv", "h.*.attn.c_attn", Kind::product},
    {"layers.*.attention.out", "h.*.attn.c_proj", Kind::product},
    {"layers.*.feed_forward_norm", "h.*.ln_2", Kind::norm},
    {"layers.*.feed_forward.in", "h.*.mlp.c_fc", Kind::product},
    {"layers.*.feed_forward.out", "h.*.mlp.c_proj", Kind::product},
    {"final_norm", "ln_f", Kind::norm},
};
constexpr NamePair kHead[] = {{"head", "lm_head", Kind::linear}};

constexpr Variant kVariants[] = {
    {.name = "GPT2LMHeadModel", .task = Task::lm, .prefixed = true, .names = kHead, .head = "lm_head.weight"},
    {.name = "GPT2Model", .task = Task::lm, .prefixed = false},
};

constexpr std::string_view kSpare[] = {"*.attn.bias", "*.attn.masked_bias", "lm_head.weight"};

}  // namespace

const Architecture kGpt2 = {.format = "gpt2",
                            .prefix = "transformer.",
                            .tokens = "wte.weight",
                            .frame = frame,
                            .fields = fields,
                            .names = kNames,
                            .variants = kVariants,
                            .spare = kSpare};

}  // namespace fovea::pretrained
