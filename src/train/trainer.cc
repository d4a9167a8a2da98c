#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>

#include "fovea/train.h"
#include "fovea/version.h"
#include "fovea/zones.h"
#include "io/folder.h"
#include "train/budget.h"
#include "train/checkpoint.h"
#include "train/metrics.h"

namespace fovea {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

// Every part of every step draws its dropout from streams of its own.
std::uint64_t first_stream(std::int64_t step, std::int64_t parts, std::int64_t part) {
  constexpr int kStreamsPerTapeBits = 20;
  return static_cast<std::uint64_t>(step * parts + part) << kStreamsPerTapeBits;
}

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

// Targets of a batch that count: parts of a batch weigh by them.
std::int64_t asked(const Batch& batch) {
  if (!batch.targets.defined() || batch.targets.dtype() != DType::i32) return batch.size();
  const Tensor& t = batch.targets;
  return t.numel() - std::count(t.data<std::int32_t>(), t.data<std::int32_t>() + t.numel(), -1);
}

// The first parameter whose gradient is not finite, or "the loss".
std::string culprit(const std::vector<Parameter>& parameters) {
  for (const Parameter& p : parameters) {
    if (!p.var.grad().defined()) continue;
    for (const double g : p.var.grad().to_vector<double>())
      if (!std::isfinite(g)) return "the gradient of " + p.name;
  }
  return "the loss";
}

using ZoneSeconds = std::array<double, kZones>;

ZoneSeconds zone_seconds(const Context& context) {
  ZoneSeconds seconds{};
  for (int z = 0; z < kZones; ++z) seconds[static_cast<std::size_t>(z)] = context.zones().seconds(static_cast<Zone>(z));
  return seconds;
}

}  // namespace

struct Trainer::Impl {
  Impl(Context& c, Model& m, const Dataset& d, TrainConfig settings)
      : context(c), model(m), data(d), config(std::move(settings)), adamw(c, m.parameters(), config.adamw) {
    state.seed = config.seed;
    state.data = DataMark::of(data);
  }

  StepReport step(Batches& batches);
  void advance(Batches& batches, StepReport& report);
  std::vector<Batch> draw(Batches& batches) const;
  void run_part(const Batch& part, std::int64_t index, double share, StepReport& report);
  void check_finite(const StepReport& report) const;
  Budget budget() const { return {config.steps, config.minutes}; }
  std::optional<StopReason> over(const std::atomic<bool>* stop) const;
  bool due(std::int64_t every) const { return every > 0 && state.step > 0 && state.step % every == 0; }
  void evaluate_now(const std::atomic<bool>* stop);
  void open_output();
  void save(const char* name);
  Path folder(const char* name) const { return Path(config.out) / name; }
  Checkpoint checkpoint() { return {model, adamw, config, state}; }
  TrainResult result(StopReason reason) const;
  template <class F>
  void tell(F&& f) const {
    for (TrainObserver* observer : observers) f(*observer);
  }

  Context& context;
  Model& model;
  const Dataset& data;
  TrainConfig config;
  AdamW adamw;
  TrainState state;
  std::vector<TrainObserver*> observers;
  std::unique_ptr<MetricsWriter> metrics;
  ZoneSeconds zones{};  // of the steps alone
  bool resumed = false;
};

void Trainer::Impl::run_part(const Batch& part, std::int64_t index, double share, StepReport& report) {
  const std::uint64_t stream = first_stream(report.step, config.accumulation, index);
  Tape tape(context, {.record = true, .training = true, .stream = stream});
  const Loss loss = model.loss(tape, part, {.label_smoothing = config.label_smoothing});
  const Var weighed = share != 1.0 ? scale(tape, loss.value, share) : loss.value;
  tape.backward(weighed);
  report.loss += weighed.value().item();
  report.accuracy += share * loss.correct / static_cast<double>(std::max<std::int64_t>(1, loss.asked));
  report.tokens += part.tokens();
}

std::vector<Batch> Trainer::Impl::draw(Batches& batches) const {
  const ZoneTimer timer(context.zones(), Zone::data);
  std::vector<Batch> parts;
  while (std::ssize(parts) < config.accumulation) parts.push_back(batches.next(context));
  return parts;
}

// Forward, backward and update: all that counts as training time.
void Trainer::Impl::advance(Batches& batches, StepReport& report) {
  const ZoneTimer timer(context.zones(), Zone::other);  // what no zone inside takes for itself
  const std::vector<Batch> parts = draw(batches);
  std::int64_t all = 0;
  for (const Batch& part : parts) all += asked(part);
  for (std::int64_t i = 0; i < std::ssize(parts); ++i) {
    const Batch& part = parts[static_cast<std::size_t>(i)];
    run_part(part, i, static_cast<double>(asked(part)) / static_cast<double>(std::max<std::int64_t>(1, all)), report);
  }
  report.gradient_norm = clip_norm(context, model.parameters(), config.clip_norm);
  check_finite(report);
  clip_value(context, model.parameters(), config.clip_value);
  report.rate = config.schedule.rate(report.step, budget().expected_steps(state.step, state.train_seconds));
  adamw.step(report.rate);
}

StepReport Trainer::Impl::step(Batches& batches) {
  const auto start = Clock::now();
  const ZoneSeconds before = zone_seconds(context);
  StepReport report;
  report.step = state.step + 1;
  advance(batches, report);
  const ZoneSeconds after = zone_seconds(context);
  for (std::size_t z = 0; z < zones.size(); ++z) zones[z] += after[z] - before[z];

  state.step = report.step;
  state.position = batches.position();
  report.epoch = state.position.epoch;
  report.seconds = seconds_since(start);
  state.train_seconds += report.seconds;
  report.train_seconds = state.train_seconds;
  report.progress = budget().progress(state.step, state.train_seconds);
  return report;
}

// Called before the update, so that the parameters are still the good ones.
void Trainer::Impl::check_finite(const StepReport& report) const {
  if (std::isfinite(report.loss) && std::isfinite(report.gradient_norm)) return;
  std::string hint = "a lower train.lr, a longer train.warmup, or train.clip_norm=1";
  if (!config.out.empty() && std::filesystem::exists(folder("last")))
    hint += "; the last good state is " + folder("last").string();
  fail(ErrorCode::diverged, fmt::format("training diverged: {} is not finite", culprit(model.parameters())),
       fmt::format("step {}", report.step), hint);
}

std::optional<StopReason> Trainer::Impl::over(const std::atomic<bool>* stop) const {
  if (stop != nullptr && stop->load()) return StopReason::interrupted;
  return budget().over(state.step, state.train_seconds);
}

void Trainer::Impl::evaluate_now(const std::atomic<bool>* stop) {
  if (state.last.step == state.step || empty(data.validation)) return;
  EvalReport report = evaluate(context, model, *data.validation,
                               {.examples = config.eval_examples, .batch = config.eval_batch, .stop = stop});
  state.eval_seconds += report.seconds;
  if (stop != nullptr && stop->load()) return;  // cut short: done again after a resume
  report.step = state.step;
  report.split = "validation";
  report.train_seconds = state.train_seconds;
  report.best = report.better_than(state.best, data.task);
  state.last = report;
  if (report.best) state.best = report;
  tell([&](TrainObserver& o) { o.on_eval(report); });
  if (report.best) save("best");
}

void Trainer::Impl::open_output() {
  if (config.out.empty() || metrics != nullptr) return;
  if (!resumed && (std::filesystem::exists(folder("last")) || std::filesystem::exists(folder("metrics.csv"))))
    fail(ErrorCode::usage, "this folder already holds a run", config.out,
         "continue it with --resume, or give another --out");
  make_folder(config.out);
  metrics = std::make_unique<MetricsWriter>(config.out, config.log_every, state.step);
  observers.push_back(metrics.get());
}

void Trainer::Impl::save(const char* name) {
  if (config.out.empty()) return;
  state.version = FOVEA_VERSION;
  save_checkpoint(folder(name), checkpoint());
  tell([&](TrainObserver& o) { o.on_checkpoint(folder(name).string()); });
}

TrainResult Trainer::Impl::result(StopReason reason) const {
  TrainResult result;
  result.reason = reason;
  result.steps = state.step;
  result.train_seconds = state.train_seconds;
  result.eval_seconds = state.eval_seconds;
  result.last = state.last;
  result.best = state.best;
  result.peak_memory = context.allocator()->total().peak;
  for (int z = 0; z < kZones; ++z)
    result.zones.push_back({std::string(name_of(static_cast<Zone>(z))), zones[static_cast<std::size_t>(z)]});
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

void Trainer::resume(const std::string& folder) {
  const Path inner = committed_folder(Path(folder) / "last");
  load_checkpoint(std::filesystem::exists(inner) ? inner : Path(folder), impl_->checkpoint());
  impl_->resumed = true;
}

TrainResult Trainer::run(const std::atomic<bool>* stop) {
  Impl& run = *impl_;
  run.open_output();
  run.context.allocator()->reset_peaks();
  Batches batches(*run.data.train,
                  {.batch_size = run.config.batch / run.config.accumulation,
                   .seed = run.config.seed,
                   .window = run.config.length_window},
                  run.state.position);
  if (run.due(run.config.eval_every))
    run.evaluate_now(stop);  // a resumed run may have been stopped in the middle of it
  std::optional<StopReason> reason = run.over(stop);
  for (; !reason; reason = run.over(stop)) {
    const StepReport report = run.step(batches);
    run.tell([&](TrainObserver& o) { o.on_step(report); });
    if (run.due(run.config.eval_every)) run.evaluate_now(stop);
    if (run.due(run.config.checkpoint_every)) run.save("last");
  }
  if (reason != StopReason::interrupted) run.evaluate_now(stop);
  run.save("last");
  return run.result(*reason);
}

}  // namespace fovea
