#include "pretrained/fields.h"

#include <fmt/format.h>

#include <algorithm>

namespace fovea::pretrained {
namespace {

constexpr std::int64_t kMostInteger = 1 << 30;
constexpr std::int64_t kMostLayers = 1000;

struct ActivationName {
  std::string_view name;
  Activation activation;
};
// Several names may mean the same; the first is written.
constexpr ActivationName kActivations[] = {
    {"gelu", Activation::gelu},           {"gelu_python", Activation::gelu},
    {"gelu_new", Activation::gelu_tanh},  {"gelu_pytorch_tanh", Activation::gelu_tanh},
    {"gelu_fast", Activation::gelu_tanh}, {"quick_gelu", Activation::gelu_quick},
    {"relu", Activation::relu},           {"relu2", Activation::relu_squared},
    {"silu", Activation::silu},           {"swish", Activation::silu},
    {"tanh", Activation::tanh},           {"sigmoid", Activation::sigmoid},
    {"linear", Activation::identity},
};

// Of every model: how it was saved, is run, generates or is drawn, none of which changes what it computes.
constexpr const char* kWithoutEffect[] = {
    "_attn_implementation",
    "_commit_hash",
    "_flash_attn_2_enabled",
    "_name_or_path",
    "architectures",
    "attn_implementation",
    "bad_words_ids",
    "begin_suppress_tokens",
    "bos_token_id",
    "chunk_size_feed_forward",
    "classifier_dropout",
    "cls_token_id",
    "cross_attention_hidden_size",
    "decoder_start_token_id",
    "diversity_penalty",
    "do_sample",
    "dtype",
    "early_stopping",
    "encoder_no_repeat_ngram_size",
    "eos_token_id",
    "exponential_decay_length_penalty",
    "finetuning_task",
    "forced_bos_token_id",
    "forced_eos_token_id",
    "gradient_checkpointing",
    "id2label",
    "initializer_factor",
    "initializer_range",
    "is_encoder_decoder",
    "label2id",
    "length_penalty",
    "mask_token_id",
    "max_length",
    "min_length",
    "model_type",
    "name_or_path",
    "no_repeat_ngram_size",
    "num_beam_groups",
    "num_beams",
    "num_labels",
    "num_return_sequences",
    "output_attentions",
    "output_hidden_states",
    "output_past",
    "output_scores",
    "pad_token_id",
    "prefix",
    "problem_type",
    "pruned_heads",
    "remove_invalid_values",
    "repetition_penalty",
    "return_dict",
    "return_dict_in_generate",
    "sep_token_id",
    "suppress_tokens",
    "task_specific_params",
    "temperature",
    "tf_legacy_loss",
    "tokenizer_class",
    "top_k",
    "top_p",
    "torch_dtype",
    "torchscript",
    "transformers_version",
    "typical_p",
    "unk_token_id",
    "use_bfloat16",
    "use_cache",
};

}  // namespace

std::optional<Activation> parse_activation(std::string_view name) {
  for (const ActivationName& known : kActivations)
    if (known.name == name) return known.activation;
  return {};
}

std::string activation_name(Activation activation) {
  for (const ActivationName& known : kActivations)
    if (known.activation == activation) return std::string(known.name);
  fail(ErrorCode::unsupported, "an activation that other formats have no name for", "model.activation");
}

ConfigFields::ConfigFields(Json json, std::string where)
    : reading_(true), json_(std::move(json)), where_(std::move(where)) {}

void ConfigFields::refuse(const std::string& what, const char* name, std::string hint) const {
  fail(ErrorCode::unsupported, fmt::format("\"{}\" {}", name, what), where_, std::move(hint));
}

// A field that is null is one that is left out.
const Json* ConfigFields::find(const char* name) {
  known_.emplace_back(name);
  const auto found = json_.find(name);
  return found == json_.end() || found->is_null() ? nullptr : &*found;
}

void ConfigFields::integer(const char* name, std::int64_t& value, std::optional<std::int64_t> absent) {
  if (!reading_) return write(name, value);
  const Json* json = find(name);
  if (json == nullptr && absent) {
    value = *absent;
    return;
  }
  if (json == nullptr) fail(ErrorCode::bad_input, fmt::format("\"{}\" is missing", name), where_);
  if (!json->is_number_integer() || *json < 0 || *json > kMostInteger)
    fail(ErrorCode::bad_input, fmt::format("\"{}\" is {}, not a size", name, json->dump()), where_);
  value = json->get<std::int64_t>();
}

void ConfigFields::real(const char* name, double& value, std::optional<double> absent) {
  if (!reading_) return write(name, value);
  const Json* json = find(name);
  if (json == nullptr && !absent) fail(ErrorCode::bad_input, fmt::format("\"{}\" is missing", name), where_);
  if (json != nullptr && !json->is_number())
    fail(ErrorCode::bad_input, fmt::format("\"{}\" is {}, not a number", name, json_kind(*json)), where_);
  value = json == nullptr ? *absent : json->get<double>();
}

void ConfigFields::flag(const char* name, bool& value, std::optional<bool> absent) {
  if (!reading_) return write(name, value);
  const Json* json = find(name);
  if (json == nullptr && !absent) fail(ErrorCode::bad_input, fmt::format("\"{}\" is missing", name), where_);
  if (json != nullptr && !json->is_boolean())
    fail(ErrorCode::bad_input, fmt::format("\"{}\" is {}, not true or false", name, json_kind(*json)), where_);
  value = json == nullptr ? *absent : json->get<bool>();
}

void ConfigFields::activation(const char* name, Activation& value) {
  if (!reading_) return write(name, activation_name(value));
  const Json* json = find(name);
  const std::string text = json != nullptr && json->is_string() ? json->get<std::string>() : "";
  const auto known = parse_activation(text);
  if (!known) refuse(fmt::format("is \"{}\", which is not built", text), name, "gelu, gelu_new, relu, silu or tanh");
  value = *known;
}

void ConfigFields::layers(const char* name, StackConfig& stack) {
  std::int64_t count = std::ssize(stack.layers);
  integer(name, count);
  if (!reading_) return;
  if (count < 1 || count > kMostLayers)
    fail(ErrorCode::bad_input, fmt::format("\"{}\" is {}", name, count), where_, "1 to 1000 layers");
  stack.layers.assign(static_cast<std::size_t>(count), "softmax");
}

void ConfigFields::classes(ModelConfig& config) {
  constexpr std::int64_t kUsual = 2;
  if (reading_) {
    const Json* labels = find("id2label");
    integer("num_labels", config.classes, labels != nullptr ? static_cast<std::int64_t>(labels->size()) : kUsual);
    return;
  }
  Json names = Json::object(), numbers = Json::object();
  for (std::int64_t i = 0; i < config.classes; ++i) {
    const std::string label = fmt::format("LABEL_{}", i);
    names[std::to_string(i)] = label;
    numbers[label] = i;
  }
  write("id2label", names);
  write("label2id", numbers);
}

void ConfigFields::fixed(const char* name, const Json& value) {
  if (!reading_) return write(name, value);
  const Json* json = find(name);
  if (json != nullptr && *json != value)
    refuse(fmt::format("is {}, which is not built", json->dump()), name, fmt::format("only {} is", value.dump()));
}

void ConfigFields::noted(const char* name, const Json& value) {
  if (reading_)
    known_.emplace_back(name);
  else
    write(name, value);
}

void ConfigFields::passed(std::initializer_list<const char*> names) {
  known_.insert(known_.end(), names.begin(), names.end());
}

void ConfigFields::refuse_unknown(const std::vector<std::string>& ignored) const {
  std::vector<std::string> unknown;
  const auto among = [](const auto& names, const std::string& name) {
    return std::find(std::begin(names), std::end(names), name) != std::end(names);
  };
  for (const auto& [name, value] : json_.items())
    if (!value.is_null() && !among(known_, name) && !among(kWithoutEffect, name) && !among(ignored, name))
      unknown.push_back(name);
  if (unknown.empty()) return;
  fail(ErrorCode::unsupported,
       fmt::format("{} \"{}\" {} not known here and may change the result",
                   unknown.size() == 1 ? "the field" : "the fields", fmt::join(unknown, "\", \""),
                   unknown.size() == 1 ? "is" : "are"),
       where_, fmt::format("--ignore {}, if it does not", fmt::join(unknown, ",")));
}

}  // namespace fovea::pretrained
