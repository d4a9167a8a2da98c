#pragma once

#include "data/batches.h"
#include "fovea/train.h"
#include "io/field_visitor.h"
#include "io/file.h"
#include "train/metrics.h"
#include "train/stepper.h"

namespace fovea {

// What identifies the data a run was trained on.
struct DataMark {
  std::string name;
  std::int64_t examples = 0;
  std::uint64_t hash = 0;  // of the tokens and labels of the train split

  static DataMark of(const Dataset& data);
  void fields(FieldVisitor& v);
  bool operator==(const DataMark&) const = default;
};

// Everything a run needs to continue, besides parameters, moments and configuration: state.json of a checkpoint.
// Random streams are functions of seed and step, so these two are their whole state.
struct TrainState {
  std::string version;  // of the library that wrote it
  std::int64_t step = 0;
  BatchPosition position;
  std::uint64_t seed = 0;
  EvalReport last, best;
  std::int64_t stale = 0;  // evaluations since the best one
  double train_seconds = 0.0, eval_seconds = 0.0, input_seconds = 0.0;
  std::int64_t tokens = 0;  // read while training
  std::uint64_t peak_memory = 0;
  std::vector<double> zone_seconds = std::vector<double>(kZones);  // of the steps, in the order of Zone
  MetricSums metrics;
  LossScaler::State scaler;  // of f16 models
  bool averaged = false;     // the model file holds the average, the average's file the parameters
  DataMark data;

  std::int64_t updates() const { return step - scaler.skipped; }  // steps that changed the parameters
  void fields(FieldVisitor& v);
  void check() const;
};

// A checkpoint folder: model.safetensors, config.json, optimizer.safetensors, state.json, where weights are averaged
// average.safetensors, where the data is text tokenizer.json, and the checksums of all of them. Replaced as a whole.
struct Checkpoint {
  const Model& model;
  Stepper& stepper;
  TrainConfig config;
  TrainState& state;
  const Tokenizer* tokenizer = nullptr;  // of the data, where it has one
};

// Its tensors, whole whatever ranks have of them.
struct CheckpointTensors {
  std::vector<NamedTensor> model, moments, average;
};
// A call of all ranks, of which the first gets them.
CheckpointTensors gather_tensors(const Checkpoint& checkpoint);

// Refuses numbers that are not finite: a folder that is there holds a state to go on from. `older`, where it is given,
// becomes the name of the folder that is replaced.
void save_checkpoint(const Path& folder, const Checkpoint& checkpoint, const CheckpointTensors& tensors,
                     const Path& older = {});

// Reads all of it into the parts given. Refuses a checkpoint of another architecture, another seed or other data, and
// one that is damaged; changes nothing until everything has been read and checked.
void load_checkpoint(const Path& folder, const Checkpoint& into);

}  // namespace fovea
