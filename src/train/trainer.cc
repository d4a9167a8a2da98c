#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>

#include "data/prefetch.h"
#include "fovea/train.h"
#include "fovea/version.h"
#include "fovea/zones.h"
#include "io/folder.h"
#include "train/budget.h"
#include "train/checkpoint.h"
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

using ZoneSeconds = std::array<double, kZones>;

ZoneSeconds zone_seconds(const Context& context) {
  ZoneSeconds seconds{};
  for (int z = 0; z < kZones; ++z) seconds[static_cast<std::size_t>(z)] = context.zones().seconds(static_cast<Zone>(z));
  return seconds;
}

}  // namespace

struct Trainer::Impl {
  Impl(Context& c, Model& m, const Dataset& d, TrainConfig settings)
      : context(c), model(m), data(d), config(std::move(settings)), stepper(c, m, config) {
    state.seed = config.seed;
    state.data = DataMark::of(data);
  }

  StepReport step(Prefetcher& feed);
  std::vector<Batch> draw(Prefetcher& feed, StepReport& report);
  Budget budget() const { return {config.steps, config.minutes}; }
  std::optional<StopReason> over(const std::atomic<bool>* stop) const;
  bool due(std::int64_t every) const { return every > 0 && state.step > 0 && state.step % every == 0; }
  void evaluate_now(const std::atomic<bool>* stop);
  void open_output();
  void save(const char* name);
  Path folder(const char* name) const { return Path(config.out) / name; }
  Checkpoint checkpoint() { return {model, stepper, config, state, data.tokenizer.get()}; }
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
  TrainState state;
  std::vector<TrainObserver*> observers;
  std::unique_ptr<MetricsWriter> metrics;
  ZoneSeconds zones{};  // of the steps alone
  bool resumed = false;
};

std::vector<Batch> Trainer::Impl::draw(Prefetcher& feed, StepReport& report) {
  const ZoneTimer timer(context.zones(), Zone::data);
  const auto start = Clock::now();
  std::vector<Batch> parts;
  while (std::ssize(parts) < config.accumulation) {
    Prefetcher::Item item = feed.next();
    parts.push_back(std::move(item.batch));
    state.position = item.after;
  }
  report.input_seconds = seconds_since(start);
  return parts;
}

// Input, forward, backward and update: all that counts as training time.
StepReport Trainer::Impl::step(Prefetcher& feed) {
  const auto start = Clock::now();
  const ZoneSeconds before = zone_seconds(context);
  StepReport report;
  report.step = state.step + 1;
  {
    const ZoneTimer timer(context.zones(), Zone::other);  // what no zone inside takes for itself
    const std::vector<Batch> parts = draw(feed, report);
    stepper.step(parts, config.schedule.rate(report.step, budget().expected_steps(state.step, state.train_seconds)),
                 report);
  }
  const ZoneSeconds after = zone_seconds(context);
  for (std::size_t z = 0; z < zones.size(); ++z) zones[z] += after[z] - before[z];

  state.step = report.step;
  report.epoch = state.position.epoch;
  report.seconds = seconds_since(start);
  state.train_seconds += report.seconds;
  state.input_seconds += report.input_seconds;
  report.train_seconds = state.train_seconds;
  report.progress = budget().progress(state.step, state.train_seconds);
  return report;
}

std::optional<StopReason> Trainer::Impl::over(const std::atomic<bool>* stop) const {
  if (stop != nullptr && stop->load()) return StopReason::interrupted;
  if (config.patience > 0 && state.stale >= config.patience) return StopReason::patience;
  return budget().over(state.step, state.train_seconds);
}

void Trainer::Impl::evaluate_now(const std::atomic<bool>* stop) {
  if (state.last.step == state.step || empty(data.validation)) return;
  std::optional<WithAverage> averaged;
  if (stepper.average()) averaged.emplace(*stepper.average());
  EvalReport report = evaluate(context, model, *data.validation,
                               {.examples = config.eval_examples,
                                .batch = config.eval_batch,
                                .stop = stop,
                                .progress = [this](std::int64_t done, std::int64_t all) {
                                  tell([&](TrainObserver& o) { o.on_eval_progress(done, all); });
                                }});
  state.eval_seconds += report.seconds;
  if (stop != nullptr && stop->load()) return;  // cut short: done again after a resume
  report.step = state.step;
  report.split = "validation";
  report.train_seconds = state.train_seconds;
  report.best = report.better_than(state.best, data.task);
  state.last = report;
  state.stale = report.best ? 0 : state.stale + 1;
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
  result.input_seconds = state.input_seconds;
  result.skipped = stepper.skipped();
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
  const Batches batches(*run.data.train,
                        {.batch_size = run.config.batch / run.config.accumulation,
                         .seed = run.config.seed,
                         .window = run.config.length_window},
                        run.state.position);
  Prefetcher feed(run.context, *run.data.train, batches, static_cast<std::size_t>(run.config.prefetch));
  if (run.due(run.config.eval_every))
    run.evaluate_now(stop);  // a resumed run may have been stopped in the middle of it
  std::optional<StopReason> reason = run.over(stop);
  for (; !reason; reason = run.over(stop)) {
    const StepReport report = run.step(feed);
    run.tell([&](TrainObserver& o) { o.on_step(report); });
    if (run.due(run.config.eval_every)) run.evaluate_now(stop);
    if (run.due(run.config.checkpoint_every)) run.save("last");
  }
  if (reason != StopReason::interrupted) run.evaluate_now(stop);
  run.save("last");
  return run.result(*reason);
}

}  // namespace fovea
