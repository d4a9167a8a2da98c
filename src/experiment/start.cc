#include "experiment/start.h"

#include <fmt/format.h>

#include <algorithm>

#include "experiment/predictions.h"
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
  return task == Task::mlm || task == Task::classify || task == Task::match || task == Task::regress ||
         (task == Task::encode && !model.image);
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
  model.head_bias = model.head_transform = model.unit_features = model.pairs = false;
  model.tied = true;
  model.task = wanted;
}

void ask_for_tokens(ModelConfig& model) {
  model.head_bias = model.head_transform = model.tied = true;
  model.unit_features = false;
  model.classifier_hidden = 0;
  model.task = Task::mlm;
}

// What makes a number of features, (4 width, 1) of pairs: a, b, a b and a - b.
struct NumberHead {
  Tensor weight, bias;

  // slope (a . b) + intercept
  void set_line(double slope, double intercept) const {
    const std::int64_t width = weight.dim(0) / 4;
    std::vector<float> values(static_cast<std::size_t>(weight.dim(0)), 0.0F);
    std::fill_n(values.begin() + 2 * width, width, static_cast<float>(slope));
    weight.copy_from(Tensor::wrap(values.data(), weight.shape(), DType::f32));
    bias.fill(intercept);
  }
};

NumberHead number_head(const Model& model) {
  NumberHead head;
  for (const Parameter& p : model.parameters()) {
    if (p.name == "classifier.out.weight") head.weight = p.var.value();
    if (p.name == "classifier.out.bias") head.bias = p.var.value();
  }
  return head;
}

// Least squares of the answers over what is given.
std::pair<double, double> line_through(std::span<const NumberPrediction> points) {
  double x = 0.0, y = 0.0, xx = 0.0, xy = 0.0;
  const auto n = static_cast<double>(points.size());
  for (const NumberPrediction& p : points) {
    x += p.given / n;
    y += p.answer / n;
  }
  for (const NumberPrediction& p : points) {
    xx += (p.given - x) * (p.given - x);
    xy += (p.given - x) * (p.answer - y);
  }
  const double slope = xx > 0.0 ? xy / xx : 0.0;
  return {slope, y - slope * x};
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

bool joins_texts(const std::string& folder) {
  const ModelConfig model = config_in(folder);
  const bool sentences = model.task == Task::match || (model.task == Task::encode && model.classifier_hidden == 0);
  return reads_texts(model) && model.types > 1 && !sentences && !model.pairs;
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

void begin_numbers(Context& context, const Model& model, const Dataset& data, const std::vector<std::string>* drawn) {
  constexpr std::int64_t kLooked = 512;  // examples
  if (data.task != Task::regress || data.mean.empty()) return;
  if (drawn != nullptr && std::find(drawn->begin(), drawn->end(), "classifier.out.weight") == drawn->end()) return;
  const NumberHead head = number_head(model);
  head.bias.fill(data.mean.front());
  if (!model.config().pairs || model.config().classifier_hidden > 0) return;
  head.set_line(1.0, 0.0);
  const auto [slope, intercept] = line_through(predict_numbers(context, model, *data.train, {.examples = kLooked}));
  head.set_line(slope, intercept);
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
