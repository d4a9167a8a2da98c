#include "train/checkpoint.h"

#include <fmt/format.h>

#include "data/dataset.h"
#include "io/fields.h"
#include "io/folder.h"
#include "models/files.h"

namespace fovea {
namespace {

constexpr const char* kOptimizerFile = "optimizer.safetensors";
constexpr const char* kStateFile = "state.json";

std::vector<NamedTensor> moment_tensors(const AdamW& adamw) {
  std::vector<NamedTensor> tensors;
  for (std::size_t i = 0; i < adamw.parameters().size(); ++i) {
    const std::string& name = adamw.parameters()[i].name;
    tensors.push_back({"first." + name, adamw.moments()[i].first});
    tensors.push_back({"second." + name, adamw.moments()[i].second});
  }
  return tensors;
}

// FNV-1a, one byte at a time.
class Hash {
 public:
  void add(std::uint8_t byte) { value_ = (value_ ^ byte) * 0x100000001b3u; }
  std::uint64_t value() const { return value_; }

 private:
  std::uint64_t value_ = 0xcbf29ce484222325u;
};

[[noreturn]] void refuse(const Path& file, const std::string& what, std::string hint) {
  fail(ErrorCode::bad_input, what, file.string(), std::move(hint));
}

// The model in memory must be the one described in the folder, not only one of the same shapes.
void check_architecture(const Path& file, const Model& model) {
  const Json stored = write_fields(read_model_config(file)), here = write_fields(model.config());
  for (const auto& [key, value] : here.items())
    if (stored.at(key) != value)
      refuse(file,
             fmt::format("the checkpoint has {} = {}, the model has {}", key, stored.at(key).dump(), value.dump()),
             "the settings the checkpoint was made with: leave the model's out to take them from there");
}

TrainState read_state(const Path& file, const TrainState& expected) {
  TrainState state = load_fields<TrainState>(file);
  if (state.seed != expected.seed)
    refuse(file, fmt::format("the run was made with seed {}, not {}", state.seed, expected.seed), "the same seed");
  if (state.data != expected.data)
    refuse(file,
           fmt::format("the run was trained on {} ({} examples), this is {} ({} examples)", state.data.name,
                       state.data.examples, expected.data.name, expected.data.examples),
           "the same data set, in the same order");
  return state;
}

}  // namespace

DataMark DataMark::of(const Dataset& data) {
  Hash hash;
  for (const Example& example : data.train) {
    for (const std::uint8_t token : example.tokens) hash.add(token);
    hash.add(static_cast<std::uint8_t>(example.label));
    hash.add(0);  // padding: in no example
  }
  return {data.name, std::ssize(data.train), hash.value()};
}

void DataMark::fields(FieldVisitor& v) {
  v("name", name, "the data set");
  v("examples", examples, "in the train split", at_least(0));
  v("hash", hash, "of the train split");
}

void TrainState::fields(FieldVisitor& v) {
  v("version", version, "of the library that wrote this");
  v("step", step, "optimiser steps taken", at_least(0));
  v("epoch", position.epoch, "of the data", at_least(0));
  v("used", position.used, "examples of this epoch handed out", at_least(0));
  v("seed", seed, "of the run");
  v("last", last, "the last evaluation");
  v("best", best, "the best evaluation");
  v("train_seconds", train_seconds, "training time", at_least(0));
  v("eval_seconds", eval_seconds, "evaluation time", at_least(0));
  v("data", data, "what it is trained on");
}

void save_checkpoint(const Path& folder, const Checkpoint& checkpoint) {
  AtomicFolder out(folder);
  const RunConfig run{checkpoint.model.config(), checkpoint.config};
  write_safetensors((out.path() / kModelFile).string(), named_tensors(checkpoint.model), {{"format", "fovea"}});
  write_safetensors((out.path() / kOptimizerFile).string(), moment_tensors(checkpoint.adamw), {{"format", "fovea"}});
  write_file(out.path() / kConfigFile, json_text(write_fields(run)));
  write_file(out.path() / kStateFile, json_text(write_fields(checkpoint.state)));
  out.commit();
}

void load_checkpoint(const Path& folder, const Checkpoint& into) {
  const Path path = committed_folder(folder);
  check_architecture(path / kConfigFile, into.model);
  const TrainState state = read_state(path / kStateFile, into.state);
  const TensorUpdate parameters(path / kModelFile, named_tensors(into.model));
  const TensorUpdate moments(path / kOptimizerFile, moment_tensors(into.adamw));
  parameters.apply();
  moments.apply();
  into.adamw.set_steps(state.step);
  into.state = state;
}

}  // namespace fovea
