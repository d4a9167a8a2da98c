#include "experiment/start.h"

#include <fmt/format.h>

#include <algorithm>

#include "experiment/run_folder.h"
#include "models/adapter.h"
#include "models/files.h"

namespace fovea {
namespace {

std::string_view task_name(Task task) { return task_names()[static_cast<std::size_t>(task)]; }

bool has_classes(Task task) { return task == Task::classify || task == Task::match || task == Task::vision; }

// Its stack reads whole texts at once.
bool reads_texts(const ModelConfig& model) {
  const Task task = model.task;
  return task == Task::mlm || task == Task::classify || task == Task::match || (task == Task::encode && !model.image);
}

ModelConfig config_in(const std::string& folder) {
  ModelConfig model = stored_config(checkpoint_of(folder, "--from"));
  remove_adapters(model);
  return model;
}

// Without a pooler the classes are read off the features.
void ask_for_classes(ModelConfig& model, Task wanted) {
  if (model.task == Task::lm) model.pooling = Pooling::last;
  if (model.task == Task::lm || model.task == Task::mlm) model.classifier_hidden = 0;
  model.head_bias = model.head_transform = model.unit_features = false;
  model.tied = true;
  model.task = wanted;
}

void ask_for_tokens(ModelConfig& model) {
  model.head_bias = model.head_transform = model.tied = true;
  model.unit_features = false;
  model.classifier_hidden = 0;
  model.task = Task::mlm;
}

[[noreturn]] void refuse(const ModelConfig& model, Task wanted, const std::string& folder) {
  fail(ErrorCode::usage,
       fmt::format("a model for {} cannot go on with data for {}", task_name(model.task), task_name(wanted)),
       "--from " + folder, fmt::format("fovea list data: what is for {}", task_name(model.task)));
}

}  // namespace

ModelConfig start_model(const std::string& folder, std::optional<Task> wanted) {
  ModelConfig model = config_in(folder);
  const bool texts = reads_texts(model);
  Task task = wanted.value_or(model.task);
  if (task == Task::lm && texts) task = Task::mlm;  // text is for both kinds of language models
  if (task == Task::vision && model.task == Task::classify) task = Task::classify;  // pictures, pixel by pixel
  if (task == model.task) {
    if (has_classes(task)) model.classes = 0;  // those of the data
    return model;
  }
  const bool classes = task == Task::classify || task == Task::match;
  if (classes && (texts || model.task == Task::lm))
    ask_for_classes(model, task);
  else if (task == Task::mlm && texts)
    ask_for_tokens(model);
  else if (task == Task::vision && model.task == Task::encode && model.image)
    ask_for_classes(model, task);
  else
    refuse(model, task, folder);
  model.classes = 0;
  return model;
}

void set_start_training(TrainConfig& train, const ModelConfig& model, const std::string& folder) {
  constexpr double kRate = 1e-4, kWidth = 256.0;  // a tenth of what trains such a model from nothing
  train.schedule.peak = kRate * std::min(1.0, kWidth / static_cast<double>(model.width));
  train.schedule.warmup = 50;
  train.clip_norm = 1.0;
  train.eval_every = 100;
  const Task before = config_in(folder).task;
  if (before == model.task && !has_classes(before)) return;
  train.adamw.rates = {has_classes(model.task) ? "classifier=10" : "head=10"};
}

void add_adapters(ModelConfig& model, const std::string& folder, std::int64_t rank) {
  const ModelConfig before = config_in(folder);
  model.lora = rank;
  if (model.decoder) model.decoder->lora = rank;
  if (model.image_stack) model.image_stack->lora = rank;
  Context context({.threads = 1});
  const Model stored = load_model(context, checkpoint_of(folder, "--from").string());
  model.frozen.clear();
  for (const Parameter& p : stored.parameters()) {
    const std::string part = p.name.substr(0, p.name.find('.'));
    const bool head = part == "classifier" || (part == "head" && before.task != model.task);
    if (!head && std::find(model.frozen.begin(), model.frozen.end(), part) == model.frozen.end())
      model.frozen.push_back(part);
  }
}

std::shared_ptr<const Tokenizer> start_tokenizer(const std::string& folder) {
  const Path checkpoint = checkpoint_of(folder, "--from");
  if (!is_there(checkpoint / "tokenizer.json")) return nullptr;
  return std::make_shared<const Tokenizer>(Tokenizer::load(checkpoint.string()));
}

std::string start_name(const std::string& folder) {
  const Path path = (Path(folder) / "").parent_path();
  const std::string name = path.filename().string();
  const bool checkpoint = (name == "best" || name == "last") && path.has_parent_path();
  return checkpoint ? path.parent_path().filename().string() : name;
}

}  // namespace fovea
