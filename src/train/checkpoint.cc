#include "train/checkpoint.h"

#include <fmt/format.h>

#include <algorithm>

#include "fovea/tokenizer.h"
#include "io/checksums.h"
#include "io/fields.h"
#include "io/folder.h"
#include "models/files.h"
#include "models/mesh.h"
#include "parallel/cut.h"

namespace fovea {
namespace {

constexpr const char* kOptimizerFile = "optimizer.safetensors";
constexpr const char* kAverageFile = "average.safetensors";
constexpr const char* kStateFile = "state.json";

std::vector<NamedTensor> average_tensors(const WeightAverage& average) {
  std::vector<NamedTensor> tensors;
  for (std::size_t i = 0; i < average.parameters().size(); ++i)
    tensors.push_back({average.parameters()[i].name, average.averages()[i]});
  return tensors;
}

// How the tensors of each file are cut, in their order: `copies` of each parameter, one after another.
std::vector<WeightCut> cuts_of(std::span<const Parameter> parameters, std::size_t copies = 1) {
  std::vector<WeightCut> cuts;
  for (const Parameter& p : parameters) cuts.insert(cuts.end(), copies, p.cut);
  return cuts;
}

std::vector<Parameter> trained(const Model& model) {
  std::vector<Parameter> parameters = model.parameters();
  std::erase_if(parameters, [](const Parameter& p) { return !p.trained(); });
  return parameters;
}

// Both moments of every trained parameter.
std::vector<WeightCut> cuts_of_moments(const Model& model) { return cuts_of(trained(model), 2); }

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
  check_checksum(file);
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

DataMark DataMark::of(const Dataset& data) { return {data.name, data.train->size(), data.train->hash()}; }

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
  v("stale", stale, "evaluations since the best one", at_least(0));
  v("train_seconds", train_seconds, "training time", at_least(0));
  v("eval_seconds", eval_seconds, "evaluation time", at_least(0));
  v("input_seconds", input_seconds, "waiting for batches", at_least(0));
  v("tokens", tokens, "read while training", at_least(0));
  v("peak_memory", peak_memory, "most bytes in use at once");
  v("zone_seconds", zone_seconds, "where the training time went", at_least(0));
  v("metrics", metrics, "of the steps since the last row of metrics.csv");
  v("loss_scale", scaler.scale, "of f16 models", above(0));
  v("clean_steps", scaler.clean, "since that scale last changed", at_least(0));
  v("skipped", scaler.skipped, "steps whose f16 gradients overflowed", at_least(0));
  v("averaged", averaged, "the model file holds the average, the average's file the parameters");
  v("data", data, "what it is trained on");
}

void TrainState::check() const {
  if (zone_seconds.size() != kZones)
    fail(ErrorCode::usage, fmt::format("{} zones, not {}", zone_seconds.size(), kZones), "zone_seconds");
}

namespace {

// A tensor of a file and the first rank of a pipeline that has it.
struct Stored {
  std::string name;
  const WholeParameter* parameter;
};

// What the whole model has in a file: a tensor for each parameter, or for each that is trained those of these prefixes.
std::vector<Stored> stored(const Model& model, bool trained, const std::vector<std::string>& prefixes = {""}) {
  std::vector<Stored> all;
  for (const WholeParameter& p : whole_parameters(model))
    for (const std::string& prefix : prefixes)
      if (p.trained || !trained) all.push_back({prefix + p.name, &p});
  return all;
}

std::vector<Stored> stored_moments(const Model& model) { return stored(model, true, {"first.", "second."}); }

// To the first rank, what the others of its pipeline have: in the order of the file.
std::vector<NamedTensor> join_stages(const Context& context, const dist::Group& stages,
                                     const std::vector<NamedTensor>& own, const std::vector<Stored>& all) {
  if (stages.size() == 1) return own;
  std::vector<NamedTensor> joined;
  for (const auto& [name, parameter] : all) {
    const auto here =
        std::find_if(own.begin(), own.end(), [&, &n = name](const NamedTensor& t) { return t.name == n; });
    if (stages.rank() == 0)
      joined.push_back(parameter->stage == 0
                           ? *here
                           : NamedTensor{name, Tensor::empty(context, parameter->shape, parameter->dtype)});
    if (parameter->stage == 0) continue;
    if (stages.rank() == 0) stages.receive(joined.back().tensor, parameter->stage);
    if (stages.rank() == parameter->stage) stages.send(here->tensor, 0);
  }
  return joined;
}

}  // namespace

CheckpointTensors gather_tensors(const Checkpoint& checkpoint) {
  Stepper& stepper = checkpoint.stepper;
  const Model& model = checkpoint.model;
  const dist::Mesh& mesh = stepper.mesh();
  const bool joins = mesh.same_weights.rank() == 0;  // with the first rank, all parts of the weights
  std::vector<NamedTensor> moments = stepper.adamw().moments(joins);
  if (!joins) return {};
  const auto join = [&](std::vector<NamedTensor> tensors, const std::vector<WeightCut>& cuts,
                        const std::vector<Stored>& all) {
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      const Tensor whole = divided::whole_of(stepper.context(), tensors[i].tensor, cuts[i], mesh.tensor);
      tensors[i].tensor = mesh.tensor.rank() == 0 ? whole : Tensor();
    }
    if (mesh.tensor.rank() > 0) return std::vector<NamedTensor>();
    return join_stages(stepper.context(), mesh.pipeline, tensors, all);
  };
  CheckpointTensors all;
  all.model = join(named_tensors(model), cuts_of(model.parameters()), stored(model, false));
  all.moments = join(std::move(moments), cuts_of_moments(model), stored_moments(model));
  if (!stepper.average()) return all;
  all.average =
      join(average_tensors(*stepper.average()), cuts_of(stepper.average()->parameters()), stored(model, true));
  return all;
}

void save_checkpoint(const Path& folder, const Checkpoint& checkpoint, const CheckpointTensors& tensors,
                     const Path& older) {
  AtomicFolder out(folder);
  const RunConfig run{checkpoint.model.config(), checkpoint.config};
  const auto save = [&](const char* name, const std::vector<NamedTensor>& all) {
    if (const std::string bad = not_finite(all); !bad.empty())
      fail(ErrorCode::diverged, fmt::format("training diverged: \"{}\" is not finite, so it is not saved", bad),
           fmt::format("step {}", checkpoint.state.step),
           "a lower train.lr, a longer train.warmup, or train.clip_norm=1");
    write_safetensors((out.path() / name).string(), all, {{"format", "fovea"}});
  };
  Stepper& stepper = checkpoint.stepper;
  save(kModelFile, tensors.model);
  save(kOptimizerFile, tensors.moments);
  if (stepper.average()) save(kAverageFile, tensors.average);
  checkpoint.state.averaged = stepper.average() && stepper.average()->swapped();
  if (stepper.scaler()) checkpoint.state.scaler = stepper.scaler()->state();
  write_file(out.path() / kConfigFile, json_text(write_fields(run)));
  write_file(out.path() / kStateFile, json_text(write_fields(checkpoint.state)));
  if (checkpoint.tokenizer) checkpoint.tokenizer->save(out.path().string());
  write_checksums(out.path());
  out.commit(older);
}

void load_checkpoint(const Path& folder, const Checkpoint& into) {
  const Path path = committed_folder(folder);
  check_architecture(path / kConfigFile, into.model);
  const TrainState state = read_state(path / kStateFile, into.state);
  Stepper& stepper = into.stepper;
  const auto parts = [&](std::vector<WeightCut> cuts, const std::vector<Stored>& all) {
    const std::size_t own = cuts.size();
    return TensorParts{std::move(cuts), stepper.mesh().tensor, all.size() - own};
  };
  const TensorUpdate parameters(path / kModelFile, named_tensors(into.model),
                                parts(cuts_of(into.model.parameters()), stored(into.model, false)));
  const std::vector<NamedTensor> room = stepper.adamw().room_for_moments();
  const TensorUpdate moments(path / kOptimizerFile, room,
                             parts(cuts_of_moments(into.model), stored_moments(into.model)));
  std::optional<TensorUpdate> average;
  if (stepper.average())
    average.emplace(path / kAverageFile, average_tensors(*stepper.average()),
                    parts(cuts_of(stepper.average()->parameters()), stored(into.model, true)));
  parameters.apply();
  moments.apply();
  stepper.adamw().take_moments(room);
  if (average) {
    average->apply();
    stepper.average()->set_updates(state.updates());
    stepper.average()->set_swapped(state.averaged);
    if (state.averaged) stepper.average()->swap();
  }
  if (stepper.scaler()) stepper.scaler()->set_state(state.scaler);
  stepper.adamw().set_steps(state.updates());
  into.state = state;
}

}  // namespace fovea
