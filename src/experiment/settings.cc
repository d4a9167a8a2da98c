#include "experiment/settings.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "core/nearest.h"
#include "data/kinds.h"
#include "experiment/start.h"
#include "fovea/tokenizer.h"
#include "io/file.h"
#include "models/presets.h"

namespace fovea {
namespace {

constexpr std::size_t kConfigCap = std::size_t{16} << 20;

Json read_config(const std::string& path) {
  return path.empty() ? Json::object() : parse_json(read_file(path, kConfigCap), path);
}

// A name from the command line, the file, or as it was.
std::string chosen_name(const Json& file, const char* key, const std::optional<std::string>& option,
                        const std::string& before) {
  if (option) return *option;
  const bool named = file.is_object() && file.contains(key) && file[key].is_string();
  return named ? file[key].get<std::string>() : before;
}

void refuse_two_choices(const Json& file, const RunChoices& o) {
  if (o.attention && file.is_object() && file.contains("model") && file["model"].is_object() &&
      file["model"].contains("layers"))
    fail(ErrorCode::usage, "--attention and the config file both choose the layers", o.config + ": model.layers",
         "--set model.layers=" + *o.attention);
}

template <class T, class Wanted>
void take(const std::optional<Wanted>& option, T& setting) {
  if (option) setting = static_cast<T>(*option);
}

// Of steps, minutes and tokens, what is given alone is meant alone.
void set_budget(const RunChoices& o, TrainConfig& train) {
  if (!o.steps && !o.minutes && !o.tokens) return;
  train.steps = o.steps.value_or(kNoStepLimit);
  train.minutes = o.minutes.value_or(0.0);
  train.tokens = o.tokens.value_or(0);
}

bool is_set(const Json& file, const RunChoices& o, const std::string& name) {
  const bool in_file = file.is_object() && file.contains("train") && file["train"].is_object();
  const auto assigns = [&](const std::string& set) { return set.starts_with("train." + name + "="); };
  return (in_file && file["train"].contains(name)) || std::any_of(o.set.begin(), o.set.end(), assigns);
}

// Where the clock or the tokens end a run, evaluations are spread over these, so that slow models have as many as fast
// ones; where steps do, if there would be fewer in what is compared. What is chosen by name stays, alone.
void spread_evaluations(const Json& file, const RunChoices& o, TrainConfig& train) {
  constexpr std::int64_t kEvaluations = 10;
  const bool by_steps = is_set(file, o, "eval_every"), by_budget = is_set(file, o, "evaluations");
  if (by_steps && !by_budget) train.evaluations = 0;
  if (by_budget && !by_steps) train.eval_every = 0;
  const bool few = o.compared && (train.eval_every == 0 || train.steps / train.eval_every < kEvaluations);
  if (by_steps || by_budget || train.evaluations > 0 || (train.minutes <= 0.0 && train.tokens == 0 && !few)) return;
  train.evaluations = kEvaluations;
  train.eval_every = 0;
}

// What the model is to be asked, by the data. Settings that are wrong are reported when all of them are read.
std::optional<Task> task_of_data(const DataSettings& start, const Json& file, const RunChoices& o) {
  constexpr std::string_view kSection = "data.";
  DataSettings data = start;
  std::vector<std::string> set;
  for (const std::string& assignment : o.set)
    if (assignment.starts_with(kSection)) set.push_back(assignment.substr(kSection.size()));
  try {
    if (file.is_object() && file.contains("data")) read_fields(data, file["data"], o.config);
    set_fields(data, set);
    take(o.data, data.source);
    return usual_task(data);
  } catch (const Error&) {
    return {};
  }
}

// The preset for data that no model was named for. Classes of texts have theirs named by the attention.
std::string_view usual_preset(Task task) {
  switch (task) {
    case Task::lm: return "gpt";
    case Task::mlm: return "roberta";
    case Task::seq2seq: return "seq2seq";
    case Task::vision: return "vit";
    case Task::image_text: return "clip";
    case Task::forecast: return "informer-forecast";
    default: return "";
  }
}

// A run does not depend on the folder it was started in. What is not there is a name, or refused later.
void make_absolute(std::string& path) {
  if (!path.empty() && !is_generated(path) && is_there(path))
    path = std::filesystem::absolute(path).lexically_normal().string();
}

constexpr const char* kUsualAttention = "transnormer-t2";

bool names_joined(const Json& file, const RunChoices& o) {
  const auto names = [](const std::string& assignment) { return assignment.starts_with("data.joined="); };
  return (file.is_object() && file.contains("data") && file["data"].contains("joined")) ||
         std::any_of(o.set.begin(), o.set.end(), names);
}

// The model in a folder, with the head that the data needs.
void choose_start(const Json& file, const RunChoices& o, std::optional<Task> asked, RunSettings& settings) {
  settings.from = chosen_name(file, "from", o.from, settings.from);
  if (o.model || o.attention)
    fail(ErrorCode::usage, "the folder decides model and attention", "--from " + settings.from,
         "without --model and --attention");
  make_absolute(settings.from);
  std::optional<Task> task = asked ? asked : task_of_data(settings.data, file, o);
  if (task == Task::match && !names_joined(file, o) && joins_texts(settings.from)) {
    settings.data.joined = true;
    task = Task::classify;
  }
  settings.model = start_model(settings.from, task);
}

// The names of preset and attention, and the model that they make before anything else changes it.
void choose_model(const Json& file, const RunChoices& o, std::optional<Task> asked, RunSettings& settings) {
  const std::string preset = chosen_name(file, "preset", o.model, settings.preset);
  const std::string attention = chosen_name(file, "attention", o.attention, settings.attention);
  const std::string from = chosen_name(file, "from", o.from, settings.from);
  if (from.empty() && (o.lora || !o.freeze.empty()))
    fail(ErrorCode::usage, "nothing has been trained yet that could stay as it is", o.lora ? "--lora" : "--freeze",
         "--from FOLDER, of a run or an imported model");
  if (!from.empty() && from != settings.from) return choose_start(file, o, asked, settings);
  if (!from.empty()) return;
  const bool fresh = settings.preset.empty() && settings.attention.empty();
  if (!fresh && preset == settings.preset && attention == settings.attention) return;
  settings.preset = preset;
  settings.attention = attention;
  if (!preset.empty() && !is_preset(preset))
    fail(ErrorCode::usage, fmt::format("unknown model \"{}\"", preset), "--model",
         name_hint(preset, ModelConfig::preset_names()));
  if (preset.empty() && !is_preset(attention))
    if (const std::optional<Task> task = asked ? asked : task_of_data(settings.data, file, o))
      settings.preset = usual_preset(*task);
  if (settings.preset.empty() && attention.empty()) settings.attention = kUsualAttention;
  settings.model = ModelConfig::preset(settings.preset.empty() ? settings.attention : settings.preset);
  if (!settings.preset.empty() && !attention.empty()) settings.model.set_attention(attention);
}

// As many layers as wanted, in the order and shares of those that were there.
void set_depth(std::int64_t depth, ModelConfig& model) {
  std::vector<std::string> layers;
  for (std::int64_t i = 0; i < depth; ++i)
    layers.push_back(model.layers[static_cast<std::size_t>(i * std::ssize(model.layers) / depth)]);
  model.layers = std::move(layers);
}

// Chooses the model; gives the config file.
Json begin_with(const RunChoices& o, std::optional<Task> asked, RunSettings& settings) {
  Json file = read_config(o.config);
  refuse_two_choices(file, o);
  if (o.data) settings.data.kind.clear();  // that of other data
  choose_model(file, o, asked, settings);
  return file;
}

void apply_choices(const Json& file, const RunChoices& o, RunSettings& settings) {
  if (!o.config.empty()) read_fields(settings, file, o.config);
  take(o.model, settings.preset);
  take(o.attention, settings.attention);
  set_fields(settings, o.set);
  take(o.data, settings.data.source);
  take(o.out, settings.train.out);
  set_budget(o, settings.train);
  take(o.batch, settings.train.batch);
  take(o.lr, settings.train.schedule.peak);
  take(o.seed, settings.train.seed);
  take(o.dtype, settings.model.dtype);
  if (!o.freeze.empty()) settings.model.frozen = o.freeze;
  if (o.lora) add_adapters(settings.model, settings.from, *o.lora);
  for (std::string* path : {&settings.data.source, &settings.data.tokenizer}) make_absolute(*path);
  settings.model.check();
  settings.train.check();
}

// Says which preset would do.
void check_task(const RunSettings& settings, const Dataset& data) {
  const Task task = settings.model.task;
  const bool reads_texts = task == Task::classify || task == Task::match;
  if (task == data.task || (task == Task::classify && data.task == Task::match)) return;
  if (reads_texts && data.task == Task::regress) return;
  const auto name = [](Task t) { return task_names()[static_cast<std::size_t>(t)]; };
  const std::string_view preset = usual_preset(data.task);
  fail(ErrorCode::usage,
       fmt::format("{} is a model for {}, the data \"{}\" is for {}", settings.name(), name(task), data.name,
                   name(data.task)),
       "--model", preset.empty() ? "without --model" : fmt::format("--model {}", preset));
}

}  // namespace

std::string RunSettings::name() const {
  if (!from.empty()) return start_name(from);
  if (preset.empty()) return attention;
  return attention.empty() ? preset : preset + " " + attention;
}

void RunSettings::fields(FieldVisitor& v) {
  v("preset", preset, "what the model starts from; empty: told by the attention");
  v("attention", attention, "mechanism of its layers; without a preset also the name of one");
  v("from", from, "folder of a model whose weights the run begins with");
  v("model", model, "the model");
  v("train", train, "the training run");
  v("data", data, "the examples");
}

bool RunChoices::names_data() const {
  const auto names_source = [](const std::string& assignment) { return assignment.starts_with("data.source="); };
  return data || !config.empty() || std::any_of(set.begin(), set.end(), names_source);
}

void RunChoices::name_attention(const std::string& name, const std::string& verb) {
  if (attention)
    fail(ErrorCode::usage, fmt::format("\"{}\" and --attention {} both name the attention", name, *attention), verb,
         verb + " transformer --attention " + *attention);
  attention = name;
}

RunSettings new_run(const Protocol& protocol, const RunChoices& choices) {
  RunSettings settings;
  settings.data = protocol.data;
  const Json file = begin_with(choices, protocol.task, settings);
  settings.train = protocol.train ? *protocol.train : TrainConfig::usual(settings.model);
  if (!settings.from.empty()) set_start_training(settings.train, settings.model, settings.from);
  if (choices.config.empty()) {
    if (protocol.depth > 0) set_depth(protocol.depth, settings.model);
    set_fields(settings, protocol.set);
  }
  apply_choices(file, choices, settings);
  spread_evaluations(file, choices, settings.train);
  return settings;
}

RunSettings changed_run(const RunSettings& before, const RunChoices& choices) {
  RunSettings settings = before;
  const Json file = begin_with(choices, {}, settings);
  apply_choices(file, choices, settings);
  return settings;
}

Dataset load_data(const Context& context, const RunSettings& settings, const Path& folder, RunObserver& observer) {
  DataUse use{settings.model.task, settings.model.max_length, {}};
  if (settings.model.decoder_max_length > 0)
    use.max_length = std::min(use.max_length, settings.model.decoder_max_length);
  if (!folder.empty() && is_there(folder / "tokenizer.json"))
    use.tokenizer = std::make_shared<const Tokenizer>(Tokenizer::load(folder.string()));
  else if (!settings.from.empty() && settings.data.tokenizer.empty())
    use.tokenizer = start_tokenizer(settings.from);
  const std::string_view kind = data_kind(settings.data);
  observer.on_detail(fmt::format("reading {} ({})", settings.data.source, kind));
  if (settings.data.kind.empty() && !is_generated(settings.data.source))
    for (const DataKind& known : data_kinds())
      if (known.name == kind)
        observer.on_note(fmt::format("taken for {}; other kinds: --set data.kind=NAME, fovea list data", kind));
  return load_data(context, settings.data, use);
}

void fit_to_data(RunSettings& settings, const Dataset& data) {
  check_task(settings, data);
  try {
    settings.model.fit(data);
  } catch (const Error& error) {
    throw error.inside("model");
  }
  if (!is_generated(settings.data.source)) settings.data.kind = data_kind(settings.data);
  settings.data.mean = data.mean;
  settings.data.deviation = data.deviation;
}

}  // namespace fovea
