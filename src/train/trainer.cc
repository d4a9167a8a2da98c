#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>

#include "data/prefetch.h"
#include "dist/same.h"
#include "fovea/train.h"
#include "fovea/version.h"
#include "fovea/zones.h"
#include "io/fields.h"
#include "io/folder.h"
#include "io/lock.h"
#include "models/mesh.h"
#include "models/weight_shares.h"
#include "train/budget.h"
#include "train/checkpoint.h"
#include "train/evaluation.h"
#include "train/kept.h"
#include "train/logit_clip.h"
#include "train/metrics.h"
#include "train/stepper.h"

namespace fovea {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

void check_fit(const Context& context, const Model& model, const Dataset& data, const TrainConfig& config) {
  const ModelConfig& m = model.config();
  if (empty(data.train)) fail(ErrorCode::bad_input, "the data set has no training examples", data.name);
  if (m.task != data.task)
    fail(ErrorCode::usage,
         fmt::format("a model for {}, but {} is for {}", task_names()[static_cast<std::size_t>(m.task)], data.name,
                     task_names()[static_cast<std::size_t>(data.task)]),
         "model.task");
  if (m.vocabulary < data.vocabulary)
    fail(ErrorCode::usage, fmt::format("{} token ids, but {} has {}", m.vocabulary, data.name, data.vocabulary),
         "model.vocabulary");
  if (data.classes > 0 && m.classes != data.classes)
    fail(ErrorCode::usage, fmt::format("{} classes, but {} has {}", m.classes, data.name, data.classes),
         "model.classes");
  if (context.seed() != config.seed)
    fail(ErrorCode::usage,
         fmt::format("the context was made with seed {}, the run with {}", context.seed(), config.seed), "train.seed");
}

std::vector<double> zone_seconds(const Context& context) {
  std::vector<double> seconds;
  for (int z = 0; z < kZones; ++z) seconds.push_back(context.zones().seconds(static_cast<Zone>(z)));
  return seconds;
}

}  // namespace

struct Trainer::Impl {
  Impl(Context& c, Model& m, const Dataset& d, TrainConfig settings)
      : context(c), model(m), data(d), config(std::move(settings)), stepper(c, m, config) {
    state.version = FOVEA_VERSION;
    state.seed = config.seed;
    state.data = DataMark::of(data);
    if (config.clip_logits > 0.0) clip.emplace(context, model, config.clip_logits);
  }

  StepReport step(Prefetcher& feed);
  StopReason steps(Prefetcher& feed, const std::atomic<bool>* stop);
  [[noreturn]] void keep_and_tell(const Error& error);
  std::vector<Batch> draw(Prefetcher& feed, StepReport& report);
  Batches batches() const;
  Budget budget() const { return {config.steps, config.minutes, config.tokens}; }
  Spent spent() const { return {state.step, state.train_seconds, state.tokens}; }
  std::optional<StopReason> over() const;
  void agree(const std::atomic<bool>* stop);
  bool writes() const { return !config.out.empty() && stepper.mesh().leads(); }
  bool compares() const { return stepper.mesh().all.size() > 1 && due(stepper.mesh().shape.compare_every); }
  bool evaluation_due() const;
  bool due(std::int64_t every) const { return every > 0 && state.step > 0 && state.step % every == 0; }
  bool checkpoint_due() const;
  void evaluate_now(const std::atomic<bool>* stop);
  void join(const dist::Mesh& mesh);
  void claim();
  void open_output();
  void compare_weights() const;
  void give_tensors();
  void save_best();
  void save_last();
  Path folder(const char* name) const { return Path(config.out) / name; }
  Checkpoint checkpoint() { return {model, stepper, config, state, data.tokenizer.get()}; }
  void measure_memory();
  TrainResult result(StopReason reason) const;
  template <class F>
  void tell(F&& f) const {
    for (TrainObserver* observer : observers) f(*observer);
  }

  Context& context;
  Model& model;
  const Dataset& data;
  TrainConfig config;
  Stepper stepper;
  std::optional<LogitClip> clip;
  TrainState state;
  std::vector<TrainObserver*> observers;
  std::unique_ptr<FolderLock> lock;
  std::unique_ptr<MetricsWriter> metrics;
  std::optional<std::int64_t> saved;  // step of what is in "last"; none: nothing, or not of this run
  Clock::time_point saved_at;
  bool stopping = false, late = false;  // what all ranks agreed on after the last step: it is to end, to save
  bool resumed = false;
};

std::vector<Batch> Trainer::Impl::draw(Prefetcher& feed, StepReport& report) {
  const ZoneTimer timer(context.zones(), Zone::data);
  const auto start = Clock::now();
  std::vector<Batch> parts;
  while (std::ssize(parts) < stepper.share().count) {
    Prefetcher::Item item = feed.next();
    parts.push_back(std::move(item.batch));
    state.position = item.after;
  }
  report.input_seconds = seconds_since(start);
  return parts;
}

Batches Trainer::Impl::batches() const {
  return {*data.train,
          {.batch_size = config.batch / config.accumulation, .seed = config.seed, .window = config.length_window},
          state.position};
}

// Input, forward, backward and update: all that counts as training time.
StepReport Trainer::Impl::step(Prefetcher& feed) {
  const auto start = Clock::now();
  const std::vector<double> before = zone_seconds(context);
  StepReport report;
  report.step = state.step + 1;
  const BatchPosition from = state.position;
  try {
    const ZoneTimer timer(context.zones(), Zone::other);  // what no zone inside takes for itself
    const std::vector<Batch> parts = draw(feed, report);
    const double rate = config.schedule.rate(report.step, budget().expected_steps(spent()));
    if (clip) {
      const LogitClip::Watch watch(*clip);
      stepper.step(parts, rate, report);
    } else {
      stepper.step(parts, rate, report);
    }
    if (clip && !report.skipped) report.clipped = clip->clip();
  } catch (...) {
    state.position = from;  // the step was not taken
    throw;
  }
  report.note = stepper.recorded().news();
  const std::vector<double> after = zone_seconds(context);
  for (std::size_t z = 0; z < after.size(); ++z) state.zone_seconds[z] += after[z] - before[z];

  state.step = report.step;
  state.tokens += report.tokens;
  report.epoch = state.position.epoch;
  report.seconds = seconds_since(start);
  state.train_seconds += report.seconds;
  state.input_seconds += report.input_seconds;
  report.train_seconds = state.train_seconds;
  report.all_tokens = state.tokens;
  report.progress = budget().progress(spent());
  measure_memory();
  if (context.device() != Device::cpu) report.memory = state.peak_memory;
  return report;
}

// The clock of the first rank is that of all; any of them may have been asked to stop.
void Trainer::Impl::agree(const std::atomic<bool>* stop) {
  const bool asked = stop != nullptr && stop->load();
  const bool saves = config.checkpoint_minutes > 0.0 && seconds_since(saved_at) >= 60.0 * config.checkpoint_minutes;
  const double own[] = {asked ? 1.0 : 0.0, saves ? 1.0 : 0.0, state.train_seconds};
  const std::vector<double> all = stepper.mesh().all.all_gather(own);
  stopping = false;
  for (std::size_t i = 0; i < all.size(); i += std::size(own)) stopping = stopping || all[i] > 0.0;
  late = all[1] > 0.0;
  state.train_seconds = all[2];
}

std::optional<StopReason> Trainer::Impl::over() const {
  if (stopping) return StopReason::interrupted;
  if (config.patience > 0 && state.stale >= config.patience) return StopReason::patience;
  return budget().over(spent());
}

// By the share of the budget that is spent, as all ranks agree on it.
bool Trainer::Impl::evaluation_due() const {
  const Spent last{state.last.step, state.last.train_seconds, state.last.tokens};
  return budget().parts(spent(), config.evaluations) > budget().parts(last, config.evaluations);
}

void Trainer::Impl::evaluate_now(const std::atomic<bool>* stop) {
  if (state.last.step == state.step || empty(data.validation)) return;
  std::optional<WithAverage> averaged;
  if (stepper.average()) averaged.emplace(*stepper.average());
  EvalReport report = evaluate(
      context, model, *data.validation,
      {.examples = config.eval_examples,
       .batch = config.eval_batch,
       .stop = stop,
       .graphs = config.graphs,
       .progress = [this](std::int64_t done,
                          std::int64_t all) { tell([&](TrainObserver& o) { o.on_eval_progress(done, all); }); }},
      stepper.mesh());
  state.eval_seconds += report.seconds;
  if (report.examples < eval_examples(*data.validation, config.eval_examples)) return;  // stopped: done after a resume
  if (!std::isfinite(report.loss))
    fail(ErrorCode::diverged, "training diverged: the validation loss is not finite",
         fmt::format("step {}", state.step), "a lower train.lr, a longer train.warmup, or train.clip_norm=1");
  report.step = state.step;
  report.split = "validation";
  report.train_seconds = state.train_seconds;
  report.tokens = state.tokens;
  report.best = report.better_than(state.best, data.task);
  state.last = report;
  state.stale = report.best ? 0 : state.stale + 1;
  if (report.best) state.best = report;
  tell([&](TrainObserver& o) { o.on_eval(report); });
  if (report.best) save_best();
}

// Ranks that would train different things are found before the first step.
void Trainer::Impl::join(const dist::Mesh& mesh) {
  if (clip && mesh.all.size() > 1)
    fail(ErrorCode::unsupported, "scores are clipped by one rank alone", "train.clip_logits", "0, or one rank");
  fovea::set_mesh(model, mesh);
  stepper.set_mesh(mesh);
  TrainConfig same = config;
  same.out.clear();
  dist::require_same(mesh.all, "the program", FOVEA_VERSION);
  dist::require_same(mesh.all, "the model", json_text(write_fields(model.config())));
  dist::require_same(mesh.all, "the training", json_text(write_fields(same)));
  dist::require_same(mesh.all, "the data", json_text(write_fields(state.data)));
}

// After this the numbers of all ranks are the same, or it is known which differ.
void Trainer::Impl::compare_weights() const {
  const WholeWeights whole_weights(model);
  std::vector<Tensor> whole, parts;
  for (const Parameter& p : model.parameters()) (p.cut.cuts() ? parts : whole).push_back(p.var.value());
  const std::string what = fmt::format("the weights after step {}", state.step);
  dist::require_same(stepper.mesh().same_layers, what, whole);
  dist::require_same(stepper.mesh().same_weights, what, parts);
}

void Trainer::Impl::claim() {
  if (writes() && lock == nullptr) lock = std::make_unique<FolderLock>(config.out);
}

void Trainer::Impl::open_output() {
  saved_at = Clock::now();
  if (!writes() || metrics != nullptr) return;
  if (!resumed && (is_there(folder("last")) || is_there(folder("best"))))
    fail(ErrorCode::usage, "this folder already holds a run", config.out,
         "continue it with --resume, or give another --out");
  metrics = std::make_unique<MetricsWriter>(config.out, config.log_every, state.step, state.metrics);
  observers.push_back(metrics.get());
}

bool Trainer::Impl::checkpoint_due() const { return late || due(config.checkpoint_every); }

// What recorded steps have is beside what everything else keeps.
void Trainer::Impl::measure_memory() {
  const Allocator& all = *context.allocator();
  state.peak_memory = std::max<std::uint64_t>(
      {state.peak_memory, all.total().peak, all.use(Lifetime::persistent).peak + stepper.recorded().peak()});
}

// A step or an evaluation that found no memory has changed nothing: what was reached is kept. After other failures of a
// device nothing can be read from it any more.
void Trainer::Impl::keep_and_tell(const Error& error) {
  const bool full = error.code() == ErrorCode::out_of_memory;
  const bool lost = error.code() == ErrorCode::internal && context.device() != Device::cpu;
  if (config.out.empty() || (!full && !lost)) throw error;
  if (stepper.mesh().all.size() > 1) throw error;  // others may have taken the step
  if (full) stepper.forget_gradients();
  if (full && saved != state.step) save_last();
  if (!saved) throw error;
  throw Error(error.code(), error.message(), error.where(),
              fmt::format("{}; step {} is in {}", error.hint(), *saved, folder("last").string()));
}

// Until the run is over.
StopReason Trainer::Impl::steps(Prefetcher& feed, const std::atomic<bool>* stop) {
  if (due(config.eval_every)) {  // a resumed run may have been stopped in the middle of it
    evaluate_now(stop);
    agree(stop);  // and be stopped there again: a step more, and it would never be done
  }
  std::optional<StopReason> reason = over();
  for (; !reason; reason = over()) {
    const StepReport report = step(feed);
    tell([&](TrainObserver& o) { o.on_step(report); });
    if (compares()) compare_weights();
    if (due(config.eval_every)) evaluate_now(stop);
    agree(stop);
    if (evaluation_due() && !over()) evaluate_now(stop);
    if (checkpoint_due()) save_last();
  }
  if (reason != StopReason::interrupted) evaluate_now(stop);
  measure_memory();
  save_last();
  return *reason;
}

// To the rank that saves.
void Trainer::Impl::give_tensors() {
  if (config.out.empty()) return;
  const WholeWeights whole(model);
  gather_tensors(checkpoint());
}

void Trainer::Impl::save_best() {
  if (!writes()) return give_tensors();
  const WholeWeights whole(model);
  measure_memory();
  save_checkpoint(folder("best"), checkpoint(), gather_tensors(checkpoint()));
  tell([&](TrainObserver& o) { o.on_checkpoint(folder("best").string()); });
}

void Trainer::Impl::save_last() {
  if (config.out.empty()) return;
  measure_memory();
  const bool keeps = config.keep > 1 && saved && *saved < state.step;
  if (writes()) {
    const WholeWeights whole(model);
    save_checkpoint(folder("last"), checkpoint(), gather_tensors(checkpoint()),
                    keeps ? kept_folder(config.out, *saved) : Path());
  }
  saved = state.step;
  saved_at = Clock::now();
  if (!writes()) return give_tensors();
  drop_kept(config.out, config.keep - 1, state.step);
  tell([&](TrainObserver& o) { o.on_checkpoint(folder("last").string()); });
}

TrainResult Trainer::Impl::result(StopReason reason) const {
  TrainResult result;
  result.reason = reason;
  result.steps = state.step;
  result.train_seconds = state.train_seconds;
  result.eval_seconds = state.eval_seconds;
  result.input_seconds = state.input_seconds;
  result.skipped = stepper.skipped();
  result.tokens = state.tokens;
  result.last = state.last;
  result.best = state.best;
  result.peak_memory = state.peak_memory;
  for (int z = 0; z < kZones; ++z)
    result.zones.push_back(
        {std::string(name_of(static_cast<Zone>(z))), state.zone_seconds[static_cast<std::size_t>(z)]});
  if (!config.out.empty()) result.resume_from = folder("last").string();
  return result;
}

Trainer::Trainer(Context& context, Model& model, const Dataset& data, TrainConfig config) {
  config.check();
  check_fit(context, model, data, config);
  impl_ = std::make_unique<Impl>(context, model, data, std::move(config));
}
Trainer::~Trainer() = default;

void Trainer::add(TrainObserver& observer) { impl_->observers.push_back(&observer); }

void Trainer::set_tape_observer(TapeObserver& observer) { impl_->stepper.set_observer(observer); }

void Trainer::set_mesh(const dist::Mesh& mesh) { impl_->join(mesh); }

void Trainer::claim() { impl_->claim(); }

void Trainer::resume(const std::string& folder) {
  Impl& run = *impl_;
  std::error_code absent;
  const Path inner = committed_folder(Path(folder) / "last");
  const bool whole = is_there(inner), own = std::filesystem::equivalent(folder, run.config.out, absent);
  run.claim();
  run.resumed = true;
  if (own && !whole && is_there(run.folder("metrics.csv"))) return;
  const Path checkpoint = whole ? inner : Path(folder);
  try {
    const WholeWeights whole(run.model);
    load_checkpoint(checkpoint, run.checkpoint());
    if (WeightShares* shares = weight_shares_of(run.model)) shares->take();
  } catch (const Error& error) {
    throw with_older(error, checkpoint);
  }
  if (whole && own) run.saved = run.state.step;
}

bool Trainer::finished() const { return impl_->over().has_value(); }

TrainResult Trainer::run(const std::atomic<bool>* stop) {
  Impl& run = *impl_;
  run.claim();
  const std::unique_ptr<FolderLock> lock = std::move(run.lock);
  run.open_output();
  run.context.allocator()->reset_peaks();
  run.compare_weights();
  run.agree(stop);
  Prefetcher feed(run.context, *run.data.train, run.batches(), static_cast<std::size_t>(run.config.prefetch),
                  run.stepper.share().batches());
  try {
    const StopReason reason = run.steps(feed, stop);
    if (WeightShares* shares = weight_shares_of(run.model)) shares->open_all();  // for who uses the model now
    return run.result(reason);
  } catch (const Error& error) {
    run.keep_and_tell(error);
  }
}

}  // namespace fovea
