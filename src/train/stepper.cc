#include "train/stepper.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "autograd/watch.h"
#include "io/file.h"
#include "models/mesh.h"
#include "models/weight_shares.h"
#include "ops/numbers.h"
#include "parallel/schedule.h"
#include "tensor/feed.h"
#include "tensor/finite.h"
#include "train/gradient_exchange.h"
#include "train/gradient_shares.h"
#include "train/shared_gradients.h"

namespace fovea {
namespace {

constexpr std::size_t kScalars = 3;  // of a part: loss, targets that count, right answers

// Targets of a batch that count: parts of a batch weigh by them.
std::int64_t asked(const Batch& batch) {
  if (!batch.targets.defined() || batch.targets.dtype() != DType::i32) return batch.size();
  const std::vector<std::int32_t> targets = batch.targets.to_vector<std::int32_t>();
  return std::ssize(targets) - std::count(targets.begin(), targets.end(), -1);
}

// The first parameter whose gradient is not finite; empty: none.
std::string bad_gradient(const std::vector<Parameter>& parameters) {
  for (const Parameter& p : parameters) {
    if (!p.var.grad().defined()) continue;
    for (const double g : p.var.grad().to_vector<double>())
      if (!std::isfinite(g)) return p.name;
  }
  return {};
}

}  // namespace

Stepper::Stepper(Context& context, Model& model, const TrainConfig& config, RecordedSteps::When record)
    : context_(context),
      model_(model),
      config_(config),
      recorded_(
          context, [this](Context& c, std::span<const Batch> parts) { return enqueue(c, parts); },
          config.graphs ? record : RecordedSteps::When::never) {
  if (model.config().dtype == DType::f16) scaler_.emplace();
  follow_parameters();
  set_mesh({});
}

// What has the gradients of all ranks after backward: parameters, or this rank's share of them.
const std::vector<Parameter>& Stepper::graded() const {
  return adamw_->divides_gradients() ? adamw_->held() : model_.parameters();
}

void Stepper::check_divided() const {
  if (weight_shares_of(model_) != nullptr && config_.average != Averaging::none)
    fail(ErrorCode::unsupported, "averages are of whole weights", "support matrix: average x divided weights",
         "train.average=none, or --divide gradients");
  if (weight_shares_of(model_) != nullptr && share_.all % mesh_.data.size() != 0)  // all fetch weights equally often
    fail(ErrorCode::usage,
         fmt::format("{} parts of a batch are not as many for each of {} ranks", share_.all, mesh_.data.size()),
         "train.accumulation", "a multiple of the ranks on the axis data");
  if (mesh_.all_weights.size() == 1) return;
  const char* const axis = mesh_.tensor.size() > 1 ? "tensor" : "pipeline";
  fail(ErrorCode::unsupported, fmt::format("gradients are divided among ranks that have all weights"),
       fmt::format("support matrix: divided gradients x {}", axis), "--divide state, or the axes data and sequence");
}

// State for each parameter of the model.
void Stepper::follow_parameters() {
  adamw_.reset();  // room for the new ones
  average_.reset();
  adamw_.emplace(context_, model_.parameters(), config_.adamw);
  if (config_.average != Averaging::none)
    average_.emplace(
        context_, model_.parameters(),
        WeightAverageOptions{.kind = config_.average == Averaging::mean ? AverageKind::mean : AverageKind::exponential,
                             .decay = config_.average_decay,
                             .start = config_.average_start});
}

void Stepper::set_mesh(const dist::Mesh& mesh) {
  mesh_ = mesh;
  share_ = PartShare::of(config_.accumulation, mesh);
  if (mesh.all_weights.size() > 1 || weight_shares_of(model_) != nullptr) follow_parameters();  // which are others
  const bool shares = mesh.shape.divides(dist::Divide::gradients);
  if (shares) check_divided();
  if (mesh.shape.divides(dist::Divide::state)) adamw_->divide(mesh.same_weights, shares, weight_shares_of(model_));
  if (shares && mesh.all.size() > 1)
    exchange_ = std::make_unique<GradientShares>(context_, *adamw_, mesh.all);
  else
    exchange_ = std::make_unique<GradientExchange>(model_.parameters(), mesh);
  if (mesh.all.size() > 1) recorded_.turn_off("ranks exchange their gradients");
}

// Every part of every step draws its dropout from streams of its own.
std::uint64_t Stepper::stream(std::size_t part) const {
  constexpr int kStreamsPerTapeBits = 20;
  return static_cast<std::uint64_t>(step_ * config_.accumulation + share_.first + static_cast<std::int64_t>(part))
         << kStreamsPerTapeBits;
}

TapeOptions Stepper::tape_options(std::size_t part) const {
  return {.record = true, .training = true, .observer = observer_, .stream = stream(part)};
}

std::vector<double> Stepper::told(std::span<const double> shares, double rate) const {
  const double scale = scaler_ ? scaler_->scale() : 1.0;
  std::vector<double> numbers;
  for (const double share : shares) numbers.push_back(share * scale);
  numbers.push_back(1.0 / scale);
  const std::vector<double> pace = adamw_->pace(rate);
  numbers.insert(numbers.end(), pace.begin(), pace.end());
  numbers.push_back(average_ ? average_->share() : 0.0);
  return numbers;
}

// Every part forward and backward: loss, targets that count and right answers of each, of every chunk of this rank.
std::vector<Tensor> Stepper::run_parts(Context& context, std::span<const Batch> parts, const Tensor& factors) {
  struct Running {
    std::unique_ptr<Tape> tape;
    Pipeline::Pass pass;
  };
  const Pipeline& pipeline = pipeline_of(model_);
  const nn::Stage& stage = pipeline.stage();
  const auto own = static_cast<std::size_t>(stage.chunks / stage.ranks);
  const LossOptions options{.label_smoothing = config_.label_smoothing};
  std::map<std::pair<std::int64_t, std::int64_t>, Running> running;  // by part and chunk
  std::vector<Tensor> scalars(kScalars * own * parts.size());
  for (const divided::ScheduledPass& next :
       divided::pipeline_schedule({stage.ranks, stage.chunks, std::ssize(parts)}, stage.rank)) {
    const auto part = static_cast<std::size_t>(next.part);
    const std::pair key(next.part, next.chunk);
    const bool last = next.part + 1 == share_.count && next.chunk == stage.rank;  // nothing goes back after it
    if (next.backward) {
      Running& run = running.at(key);
      pipeline.backward(*run.tape, run.pass, factors.select(0, next.part));
      running.erase(key);
      exchange_->end_part(last);
      if (WeightShares* weights = weight_shares_of(model_)) weights->close_all();
      continue;
    }
    TapeOptions tape = tape_options(part);
    tape.observer = exchange_->watch(tape.observer, last);
    Running& run = running[key];
    run.tape = std::make_unique<Tape>(context, tape);
    run.pass = forward_chunk(model_, *run.tape, parts[part], &options, next.chunk);
    const Loss& loss = run.pass.loss;
    const std::size_t at = kScalars * (part * own + static_cast<std::size_t>(next.chunk / stage.ranks));
    scalars[at] = loss.value.value(), scalars[at + 1] = loss.asked, scalars[at + 2] = loss.correct;
  }
  pipeline.settle();
  return scalars;
}

// The same of all chunks of all ranks.
std::vector<double> Stepper::numbers_of_parts(std::span<const double> numbers, std::size_t parts) const {
  const nn::Stage& stage = pipeline_of(model_).stage();
  const auto own = static_cast<std::size_t>(stage.chunks / stage.ranks);
  std::vector<double> sums(kScalars * parts, 0.0);
  for (std::size_t i = 0; i < kScalars * own * parts; ++i)
    sums[i / (kScalars * own) * kScalars + i % kScalars] += numbers[i];
  return pipeline_of(model_).sum(sums);
}

void Stepper::abandon(const Error& error) noexcept {
  exchange_->abandon(error);
  pipeline_of(model_).abandon();
}

// Loss, targets that count and right answers of every part, the norm of the gradients, and whether those of f16 were
// finite. Leaves the gradients as they were applied.
Tensor Stepper::enqueue(Context& context, std::span<const Batch> parts) {
  const Numbers at{parts.size(), adamw_->rates()};
  const Tensor told = feed(context, [this] {
    const auto numbers = std::make_shared<std::vector<double>>(told_);
    return Tensor::wrap(numbers->data(), {std::ssize(*numbers)}, DType::f64, numbers);
  });
  const auto number = [&](std::size_t i) { return told.select(0, static_cast<std::int64_t>(i)); };
  adamw_->zero_grad();
  std::vector<Tensor> scalars = run_parts(context, parts, told);
  const std::int64_t ranks = mesh_.data.size();
  exchange_->finish((share_.all + ranks - 1) / ranks);
  const std::vector<Parameter>& parameters = graded();
  const Tensor finite = scaler_ ? LossScaler::unscale(context, parameters, number(at.unscale())) : Tensor();
  if (scaler_) agree_on_finite(finite, mesh_);
  scalars.insert(scalars.end(), {clip_shares(context, parameters, config_.clip_norm, mesh_), finite});
  const Tensor numbers = collect_numbers(context, std::move(scalars));
  const Tensor go = finite_answer(context, numbers);
  clip_value(context, parameters, config_.clip_value, go);
  adamw_->apply(context, told.slice(0, static_cast<std::int64_t>(at.pace()), static_cast<std::int64_t>(at.share())),
                go);
  if (average_) average_->apply(context, number(at.share()), go);
  return numbers;
}

void Stepper::step(std::span<const Batch> parts, double rate, StepReport& report) {
  report.rate = rate;
  step_ = report.step;
  std::vector<double> shares, counts;
  for (const Batch& part : parts) {
    shares.push_back(static_cast<double>(asked(part)));
    counts.insert(counts.end(), {shares.back(), static_cast<double>(part.tokens())});
  }
  const std::vector<double> all_counts = gather_parts(mesh_, share_.all, counts, 2);
  double all = 0.0;
  for (std::size_t i = 0; i < all_counts.size(); i += 2) all += all_counts[i];
  for (double& share : shares) share /= std::max(1.0, all);
  told_ = told(shares, rate);
  std::vector<double> numbers;
  try {
    numbers = recorded_.run(parts, stream(0));  // the one wait of a step
  } catch (const Error& error) {
    abandon(error);
    throw;
  } catch (const std::exception& error) {
    abandon(Error(ErrorCode::internal, error.what()));
    throw;
  }
  report_parts(all_counts, gather_parts(mesh_, share_.all, numbers_of_parts(numbers, parts.size()), kScalars), report);
  report.replayed = recorded_.was_played();
  if (scaler_ && !adapt_scale(numbers.back() == 1.0, report)) return;
  report.gradient_norm = numbers[numbers.size() - 2];
  check_finite(parts, report);
  adamw_->zero_grad();
  adamw_->advance();
  if (average_) average_->advance();
}

// `counts`: targets that count and tokens of every part; `numbers`: loss, targets and right answers.
void Stepper::report_parts(std::span<const double> counts, std::span<const double> numbers, StepReport& report) const {
  double all = 0.0;
  for (std::size_t i = 0; i < counts.size(); i += 2) all += counts[i];
  for (std::size_t i = 0; 2 * i < counts.size(); ++i) {
    const double share = counts[2 * i] / std::max(1.0, all);
    report.tokens += static_cast<std::int64_t>(counts[2 * i + 1]);
    report.loss += share * numbers[kScalars * i];
    report.accuracy += share * numbers[kScalars * i + 2] / std::max(1.0, numbers[kScalars * i + 1]);
  }
}

// May the step be taken?
bool Stepper::adapt_scale(bool finite, StepReport& report) {
  if (!finite) adamw_->zero_grad();
  scaler_->adapt(finite);
  report.skipped = !finite;
  report.loss_scale = scaler_->scale();
  return finite;
}

// Runs the step again and stops at the first operation whose result is not finite.
std::string Stepper::find_source(std::span<const Batch> parts) {
  if (recorded_.was_played()) enqueue(context_, parts);  // for the gradients, which recordings do not keep
  const std::string parameter = bad_gradient(graded());
  const std::string fallback = parameter.empty() ? "the loss is not finite" : "the gradient of " + parameter;
  adamw_->zero_grad();
  if (mesh_.same_examples.size() > 1 || mesh_.pipeline.size() > 1 || weight_shares_of(model_) != nullptr)
    return fallback;  // one that stops half way would leave the others waiting
  for (std::size_t part = 0; part < parts.size(); ++part) {
    FiniteWatch watch;
    TapeOptions options = tape_options(part);
    options.replay = true;
    options.observer = &watch;
    Tape tape(context_, options);
    try {
      tape.backward(model_.loss(tape, parts[part], {.label_smoothing = config_.label_smoothing}).value);
    } catch (const Error& e) {
      if (e.code() != ErrorCode::diverged) throw;
      return e.where().empty() ? fmt::format("{} ({})", e.message(), fallback)
                               : fmt::format("{}: {}", e.where(), e.message());
    }
  }
  return fallback;
}

// What the first rank found that could name an operation.
std::string Stepper::told_source(std::span<const Batch> parts) {
  const std::vector<std::string> found = mesh_.all.all_gather(find_source(parts));
  for (const std::string& source : found)
    if (source.find(": ") != std::string::npos) return source;
  return found.front();
}

// Called before the update, so that the parameters are still the good ones.
void Stepper::check_finite(std::span<const Batch> parts, const StepReport& report) {
  if (std::isfinite(report.loss) && std::isfinite(report.gradient_norm)) return;
  std::string hint = "a lower train.lr, a longer train.warmup, or train.clip_norm=1";
  const Path last = Path(config_.out) / "last";
  if (!config_.out.empty() && is_there(last)) hint += "; the last good state is " + last.string();
  fail(ErrorCode::diverged, fmt::format("training diverged: {}", told_source(parts)),
       fmt::format("step {}", report.step), hint);
}

}  // namespace fovea
