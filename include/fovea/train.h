#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "fovea/export.h"
#include "fovea/model.h"
#include "fovea/optim.h"

namespace fovea {

namespace dist {
struct Mesh;  // ranks, and how they divide the work (src/dist)
}

// Weights averaged over the steps, for evaluation and for the best checkpoint.
enum class Averaging : std::uint8_t { none, exponential, mean };

// One training run, except for the model and the data. The same names are used in JSON, after --set train. and in
// config.json of a checkpoint.
struct FOVEA_EXPORT TrainConfig {
  std::int64_t steps = 5000;      // optimiser steps; with minutes given, the most it may take
  double minutes = 0.0;           // budget of training time, evaluation and checkpoints not counted; 0: none
  std::int64_t tokens = 0;        // budget of tokens read while training; 0: none
  std::int64_t batch = 32;        // examples per step, all accumulated parts together
  std::int64_t accumulation = 1;  // parts a batch is cut into; memory falls, results stay the same but for rounding
  Schedule schedule = {};         // in JSON: lr, schedule, power, lr_floor, warmup
  AdamWOptions adamw = {};        // in JSON: beta1, beta2, eps, weight_decay, decoupled
  double clip_norm = 0.0;         // 0: off
  double clip_value = 1.0;        // 0: off
  double clip_logits = 0.0;       // largest score of softmax that queries and keys may come to; 0: off
  double label_smoothing = 0.0;
  Averaging average = Averaging::none;
  double average_decay = 0.999;       // of the exponential one
  std::int64_t average_start = 1;     // first step that counts
  std::int64_t patience = 0;          // evaluations without a better one before the run ends; 0: never ends for that
  std::int64_t prefetch = 2;          // batches made ahead, on a thread of their own; 0: none
  std::int64_t eval_every = 500;      // steps; 0: only at the end
  std::int64_t evaluations = 0;       // so many, spread evenly over the budget, whatever it counts; 0: none by it
  std::int64_t eval_examples = 2000;  // of the validation split; 0: all
  std::int64_t eval_batch = 32;
  std::int64_t checkpoint_every = 500;  // steps; 0: not by steps
  double checkpoint_minutes = 5.0;      // the longest that work goes unsaved; 0: not by time
  std::int64_t keep = 2;                // checkpoints that stay: the last one, and those before it as "step-N"
  std::int64_t log_every = 10;          // steps between rows of metrics.csv
  std::uint64_t seed = 0;               // must be the seed of the context
  std::int64_t length_window = 0;       // batches among which examples are sorted by length; 0: none
  bool graphs = true;                   // on a card, steps of a shape that comes again are played as CUDA graphs
  std::string out = {};                 // folder for checkpoints and metrics; empty: nothing is written

  // What usually trains such a model well, from scratch and in minutes to hours: where a search may start.
  static TrainConfig usual(const ModelConfig& model);

  // Refuses what cannot be run, naming the field.
  void check() const;

  void fields(FieldVisitor& v);
};

// Where the time of a run went, in seconds. Zones exclude each other and add up to the training time.
struct ZoneTime {
  std::string name;  // as in zones.h
  double seconds = 0.0;
};

struct StepReport {
  std::int64_t step = 0;  // from 1
  std::int64_t epoch = 0;
  double loss = 0.0;      // of this batch, under dropout and with label smoothing
  double accuracy = 0.0;  // the same; 0 where there are no classes
  double rate = 0.0;
  double gradient_norm = 0.0;  // before clipping
  double loss_scale = 0.0;     // of f16 models
  std::int64_t clipped = 0;    // heads whose queries and keys were scaled down by clip_logits
  bool skipped = false;        // its f16 gradients overflowed: nothing was changed
  bool replayed = false;       // played from a recording
  std::string note = {};       // what there is to tell of recordings since the last step
  std::size_t memory = 0;      // of another device than the host: most bytes in use at once so far
  std::int64_t tokens = 0;
  std::int64_t all_tokens = 0;  // so far
  double seconds = 0.0;         // this step
  double input_seconds = 0.0;   // of these, waiting for the batch
  double train_seconds = 0.0;   // so far, evaluation and checkpoints not counted
  double progress = 0.0;        // share of the run done, by steps or by the clock, whichever ends it first
};

struct EvalReport {
  std::int64_t step = 0;
  std::string split;         // "validation", "test"
  double loss = 0.0;         // without label smoothing; of numbers the mean squared error
  double accuracy = 0.0;     // where there are classes
  double deviation = 0.0;    // mean absolute error, where there are numbers
  double loss_margin = 0.0;  // half of the 95% interval of the loss, by how much batches differ; 0: unknown
  std::int64_t examples = 0;
  std::int64_t asked = 0;  // targets: one for each example, or many
  double seconds = 0.0;
  double train_seconds = 0.0;  // training time before it
  std::int64_t tokens = 0;     // read before it
  bool best = false;           // the best so far

  // By accuracy where whole inputs have classes, by loss elsewhere.
  bool better_than(const EvalReport& other, Task task) const;
  void fields(FieldVisitor& v);
};

// Watches a run. Called on the training thread, between steps.
class FOVEA_EXPORT TrainObserver {
 public:
  virtual ~TrainObserver() = default;
  virtual void on_step(const StepReport&) {}
  virtual void on_eval_progress(std::int64_t /*done*/, std::int64_t /*all*/) {}  // examples
  virtual void on_eval(const EvalReport&) {}
  virtual void on_checkpoint(const std::string& /*folder*/) {}
};

enum class StopReason : std::uint8_t { steps, minutes, interrupted, patience, tokens };

// Of the whole run: what was measured before it was stopped and resumed counts as well.
struct TrainResult {
  StopReason reason = StopReason::steps;
  std::int64_t steps = 0;
  double train_seconds = 0.0;  // evaluation and checkpoints not counted
  double eval_seconds = 0.0;
  double input_seconds = 0.0;  // of the training time, waiting for batches
  std::int64_t skipped = 0;    // steps whose f16 gradients overflowed
  std::int64_t tokens = 0;     // read while training
  EvalReport last, best;       // on the validation split; step 0 when none was made
  std::size_t peak_memory = 0;
  std::vector<ZoneTime> zones;
  std::string resume_from;  // folder to give to resume(); empty when nothing was written
};

// Trains a model on the train split of a data set. The context must have the seed of the config.
class FOVEA_EXPORT Trainer {
 public:
  Trainer(Context& context, Model& model, const Dataset& data, TrainConfig config);
  ~Trainer();

  void add(TrainObserver& observer);               // must outlive the trainer
  void set_tape_observer(TapeObserver& observer);  // of the tapes of training steps; the same

  // Shares the run with other ranks, before it is claimed or resumed; all of them make the same calls. The first writes
  // and decides, and a checkpoint serves any number of ranks.
  void set_mesh(const dist::Mesh& mesh);

  // Makes the output folder this trainer's own until the end of run(); refused while another trains there. resume() and
  // run() begin with it.
  void claim();

  // Continues from a checkpoint folder ("runs/x/last") or the run folder above it. From there on every loss and
  // parameter is the same, bit for bit, as if the run had not stopped (unless the clock decides: `minutes`).
  // A run that was stopped before its first checkpoint begins again.
  void resume(const std::string& folder);

  // Nothing is left to do: the budget was spent before.
  bool finished() const;

  // Runs to the end of the budget. `stop` is looked at after every step: when true, saves and returns.
  TrainResult run(const std::atomic<bool>* stop = nullptr);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// Loss and accuracy over the first examples, without dropout.
struct EvalOptions {
  std::int64_t examples = 0;  // 0: all
  std::int64_t batch = 32;
  const std::atomic<bool>* stop = nullptr;  // when true, reports on the examples done so far
  bool graphs = true;                       // as TrainConfig has it
  std::function<void(std::int64_t done, std::int64_t all)> progress = {};
};
FOVEA_EXPORT EvalReport evaluate(Context& context, const Model& model, const Split& split,
                                 const EvalOptions& options = {});

// The two sections of config.json of a checkpoint.
struct FOVEA_EXPORT RunConfig {
  ModelConfig model;
  TrainConfig train;

  void fields(FieldVisitor& v);
};
FOVEA_EXPORT RunConfig load_run_config(const std::string& folder);

}  // namespace fovea
