#include "cli/settings.h"

#include <fmt/format.h>

#include <filesystem>

#include "data/listops.h"

namespace fovea::cli {
namespace {

constexpr std::size_t kConfigCap = std::size_t{16} << 20;

void keep_first(std::vector<Example>& examples, std::int64_t count) {
  if (static_cast<std::size_t>(count) < examples.size()) examples.resize(static_cast<std::size_t>(count));
}

LabelledData read_folder(const Context& context, const DataSettings& settings) {
  LabelledData data = listops::read(context, settings.source);
  keep_first(data.train, settings.train);
  keep_first(data.validation, settings.validation);
  keep_first(data.test, settings.test);
  return data;
}

Json read_config(const std::string& path) {
  return path.empty() ? Json::object() : parse_json(read_file(path, kConfigCap), path);
}

// The preset that the model section refines: from the command line, the file, or as it was.
std::string chosen_preset(const Json& file, const std::string& path, const std::optional<std::string>& attention,
                          const std::string& fallback) {
  const bool named = file.is_object() && file.contains("attention") && file["attention"].is_string();
  if (!attention) return named ? file["attention"].get<std::string>() : fallback;
  if (file.is_object() && file.contains("model") && file["model"].is_object() && file["model"].contains("layers"))
    fail(ErrorCode::usage, "--attention and the config file both choose the layers", path + ": model.layers",
         "--set model.layers=" + *attention);
  return *attention;
}

template <class T, class Wanted>
void take(const std::optional<Wanted>& option, T& setting) {
  if (option) setting = static_cast<T>(*option);
}

// Of steps and minutes, what is given alone is meant alone.
void set_budget(const RunOptions& o, TrainConfig& train) {
  if (o.steps) train.minutes = 0.0;
  if (o.minutes) train.steps = kNoStepLimit;
  take(o.steps, train.steps);
  take(o.minutes, train.minutes);
}

}  // namespace

void DataSettings::fields(FieldVisitor& v) {
  constexpr double kMost = 100e6;
  v("source", source, "\"listops\" (generated) or a folder with TSV files");
  v("train", train, "training examples, at most", between(1, kMost));
  v("validation", validation, "validation examples, at most", between(1, kMost));
  v("test", test, "test examples, at most", between(1, kMost));
  v("seed", seed, "of the generator");
}

void RunSettings::fields(FieldVisitor& v) {
  v("attention", attention, "preset or mechanism that the model starts from");
  v("model", model, "the model");
  v("train", train, "the training run");
  v("data", data, "the examples");
}

LabelledData load_listops(const Context& context, const DataSettings& settings, const Console& console) {
  if (settings.source != "listops") {
    if (!std::filesystem::is_directory(settings.source))
      fail(ErrorCode::bad_input, fmt::format("no folder \"{}\"", settings.source), "--data",
           "listops, or a folder made by: fovea data listops --out FOLDER");
    return read_folder(context, settings);
  }
  console.detail(fmt::format("generating {} ListOps examples", settings.train + settings.validation + settings.test));
  return listops::generate(context, settings.seed,
                           {static_cast<std::size_t>(settings.train), static_cast<std::size_t>(settings.validation),
                            static_cast<std::size_t>(settings.test)});
}

Dataset load_data(const Context& context, const DataSettings& settings, const Console& console) {
  return dataset_of(load_listops(context, settings, console));
}

void add_run_options(const Arguments& verb, RunOptions& o) {
  verb.add_option("--data", o.data, "listops (generated) or a folder of TSV files").type_name("SOURCE");
  verb.add_option("--out", o.out, "folder for checkpoints, curves and report").type_name("FOLDER");
  verb.add_option("--steps", o.steps, "training steps").type_name("N").check(in_range(1, 1e12));
  verb.add_option("--minutes", o.minutes, "training time, evaluation not counted")
      .type_name("M")
      .check(in_range(1e-4, 1e7));
  verb.add_option("--batch", o.batch, "examples per step").type_name("N").check(in_range(1, 1e6));
  verb.add_option("--lr", o.lr, "peak learning rate").type_name("X").check(in_range(1e-12, 1e3));
  verb.add_option("--dtype", o.dtype, "f32 or bf16").type_name("NAME");
  verb.add_option("--seed", o.seed, "of weights, dropout and shuffling").type_name("N");
  verb.add_option("--config", o.config, "JSON file; settings as run.json has them").type_name("FILE");
  verb.add_option("--set", o.set, "change one setting: train.warmup=200 (repeatable)")
      .type_name("NAME=VALUE")
      .repeatable();
  add_machine_options(verb, o.machine);
}

RunSettings resolve(const RunSettings& start, const RunOptions& o, const std::optional<std::string>& attention) {
  const Json file = read_config(o.config);
  RunSettings settings = start;
  settings.attention = chosen_preset(file, o.config, attention, start.attention);
  if (settings.attention != start.attention || attention) settings.model = ModelConfig::preset(settings.attention);
  if (!o.config.empty()) read_fields(settings, file, o.config);
  if (attention) settings.attention = *attention;
  set_fields(settings, o.set);
  take(o.data, settings.data.source);
  take(o.out, settings.train.out);
  set_budget(o, settings.train);
  take(o.batch, settings.train.batch);
  take(o.lr, settings.train.schedule.peak);
  take(o.seed, settings.train.seed);
  if (o.dtype) settings.model.dtype = parse_dtype(*o.dtype);
  settings.model.check();
  settings.train.check();
  return settings;
}

void fit_to_data(ModelConfig& model, const Dataset& data) {
  if (model.vocabulary == 0) model.vocabulary = data.vocabulary;
  if (model.classes == 0) model.classes = data.classes;
  if (model.vocabulary < data.vocabulary || model.classes < data.classes)
    fail(ErrorCode::bad_input,
         fmt::format("the data set has {} token ids and {} classes, the model {} and {}", data.vocabulary, data.classes,
                     model.vocabulary, model.classes),
         "model.vocabulary, model.classes", "0: taken from the data");
  if (data.max_length > model.max_length)
    fail(ErrorCode::bad_input,
         fmt::format("the data set has sequences of {} tokens, the model takes {}", data.max_length, model.max_length),
         "model.max_length", fmt::format("--set model.max_length={}", data.max_length));
}

}  // namespace fovea::cli
