#include "pretrained/architecture.h"

// BERT and RoBERTa: the same layers; RoBERTa counts positions from the row after the padding's.
namespace fovea::pretrained {
namespace {

ModelConfig frame() {
  ModelConfig config = ModelConfig::preset("roberta");
  config.inner_dropout = 0.0;
  config.head_bias = config.head_transform = false;
  config.classifier_activation = Activation::tanh;
  return config;
}

void bert_fields(ConfigFields& f, ModelConfig& c) {
  f.integer("vocab_size", c.vocabulary);
  std::int64_t rows = c.max_length + c.position_offset;
  f.integer("max_position_embeddings", rows);
  c.max_length = rows - c.position_offset;
  f.integer("type_vocab_size", c.types, 2);
  f.integer("hidden_size", c.width);
  f.layers("num_hidden_layers", c);
  f.integer("num_attention_heads", c.heads);
  f.integer("intermediate_size", c.inner);
  f.activation("hidden_act", c.activation);
  f.real("layer_norm_eps", c.norm_eps, 1e-12);
  f.real("hidden_dropout_prob", c.dropout, 0.1);
  f.real("attention_probs_dropout_prob", c.attention_dropout, 0.1);
  f.flag("tie_word_embeddings", c.tied, true);
  f.fixed("position_embedding_type", "absolute");
  f.fixed("is_decoder", false);
  f.fixed("add_cross_attention", false);
  f.passed({"directionality", "pooler_fc_size", "pooler_num_attention_heads", "pooler_num_fc_layers",
            "pooler_size_per_head", "pooler_type"});
}

void roberta_fields(ConfigFields& f, ModelConfig& c) {
  std::int64_t padding = c.position_offset - 1;
  f.integer("pad_token_id", padding, 1);
  c.position_offset = padding + 1;
  bert_fields(f, c);
}

void pooled(ConfigFields&, ModelConfig& c) { c.classifier_hidden = c.width; }

void masked(ConfigFields&, ModelConfig& c) { c.head_bias = c.head_transform = true; }

void classified(ConfigFields& f, ModelConfig& c) {
  f.classes(c);
  c.classifier_hidden = c.width;
}

constexpr NamePair kNames[] = {
    {"embedding.tokens", "embeddings.word_embeddings.weight"},
    {"embedding.positions", "embeddings.position_embeddings.weight"},
    {"embedding.types", "embeddings.token_type_embeddings.weight"},
    {"embedding.norm", "embeddings.LayerNorm", Kind::norm},
    {"layers.*.attention.qkv", "encoder.layer.*.attention.self.{query,key,value}", Kind::linear},
    {"layers.*.attention.out", "encoder.layer.*.attention.output.dense", Kind::linear},
    {"layers.*.attention_norm", "encoder.layer.*.attention.output.LayerNorm", Kind::norm},
    {"layers.*.feed_forward.in", "encoder.layer.*.intermediate.dense", Kind::linear},
    {"layers.*.feed_forward.out", "encoder.layer.*.output.dense", Kind::linear},
    {"layers.*.feed_forward_norm", "encoder.layer.*.output.LayerNorm", Kind::norm},
    {"classifier.hidden", "pooler.dense", Kind::linear},
};

constexpr NamePair kBertMasked[] = {
    {"head.transform", "cls.predictions.transform.dense", Kind::linear},
    {"head.norm", "cls.predictions.transform.LayerNorm", Kind::norm},
    {"head.bias", "cls.predictions.bias|cls.predictions.decoder.bias"},
    {"head", "cls.predictions.decoder", Kind::linear},
};
constexpr NamePair kBertClasses[] = {{"classifier.out", "classifier", Kind::linear}};

constexpr NamePair kRobertaMasked[] = {
    {"head.transform", "lm_head.dense", Kind::linear},
    {"head.norm", "lm_head.layer_norm", Kind::norm},
    {"head.bias", "lm_head.bias|lm_head.decoder.bias"},
    {"head", "lm_head.decoder", Kind::linear},
};
constexpr NamePair kRobertaClasses[] = {
    {"classifier.hidden", "classifier.dense", Kind::linear},
    {"classifier.out", "classifier.out_proj", Kind::linear},
};

constexpr Variant kBertVariants[] = {
    {.name = "BertModel", .task = Task::encode, .prefixed = false, .fields = pooled},
    {.name = "BertForMaskedLM",
     .task = Task::mlm,
     .prefixed = true,
     .fields = masked,
     .names = kBertMasked,
     .head = "cls.predictions.decoder.weight"},
    {.name = "BertForSequenceClassification",
     .task = Task::classify,
     .prefixed = true,
     .fields = classified,
     .names = kBertClasses},
};

constexpr Variant kRobertaVariants[] = {
    {.name = "RobertaModel", .task = Task::encode, .prefixed = false, .fields = pooled},
    {.name = "RobertaForMaskedLM",
     .task = Task::mlm,
     .prefixed = true,
     .fields = masked,
     .names = kRobertaMasked,
     .head = "lm_head.decoder.weight"},
    {.name = "RobertaForSequenceClassification",
     .task = Task::classify,
     .prefixed = true,
     .fields = classified,
     .names = kRobertaClasses},
};

constexpr std::string_view kSpare[] = {"*position_ids", "*pooler.dense.*", "cls.*", "lm_head.*"};

}  // namespace

const Architecture kBert = {.format = "bert",
                            .prefix = "bert.",
                            .tokens = "embeddings.word_embeddings.weight",
                            .frame = frame,
                            .fields = bert_fields,
                            .names = kNames,
                            .variants = kBertVariants,
                            .spare = kSpare};

const Architecture kRoberta = {.format = "roberta",
                               .prefix = "roberta.",
                               .tokens = "embeddings.word_embeddings.weight",
                               .frame = frame,
                               .fields = roberta_fields,
                               .names = kNames,
                               .variants = kRobertaVariants,
                               .spare = kSpare};

}  // namespace fovea::pretrained
