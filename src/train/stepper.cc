#include "train/stepper.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "autograd/watch.h"
#include "io/file.h"
#include "ops/numbers.h"

namespace fovea {
namespace {

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

Stepper::Stepper(Context& context, Model& model, const TrainConfig& config)
    : context_(context), model_(model), config_(config), adamw_(context, model.parameters(), config.adamw) {
  if (config.average != Averaging::none)
    average_.emplace(
        context, model.parameters(),
        WeightAverageOptions{.kind = config.average == Averaging::mean ? AverageKind::mean : AverageKind::exponential,
                             .decay = config.average_decay,
                             .start = config.average_start});
  if (model.config().dtype == DType::f16) scaler_.emplace();
}

// Every part of every step draws its dropout from streams of its own.
TapeOptions Stepper::tape_options(const StepReport& report, std::size_t part) const {
  constexpr int kStreamsPerTapeBits = 20;
  const std::int64_t index = report.step * config_.accumulation + static_cast<std::int64_t>(part);
  return {.record = true,
          .training = true,
          .observer = observer_,
          .stream = static_cast<std::uint64_t>(index) << kStreamsPerTapeBits};
}

Loss Stepper::run_part(const Batch& batch, std::size_t part, double share, const StepReport& report) {
  Tape tape(context_, tape_options(report, part));
  Loss loss = model_.loss(tape, batch, {.label_smoothing = config_.label_smoothing});
  const double factor = share * (scaler_ ? scaler_->scale() : 1.0);
  tape.backward(factor != 1.0 ? scale(tape, loss.value, factor) : loss.value);
  return loss;
}

void Stepper::step(std::span<const Batch> parts, double rate, StepReport& report) {
  report.rate = rate;
  std::vector<double> shares;
  for (const Batch& part : parts) shares.push_back(static_cast<double>(asked(part)));
  const double all = std::max(1.0, std::accumulate(shares.begin(), shares.end(), 0.0));
  std::vector<Tensor> scalars;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    shares[i] /= all;
    const Loss loss = run_part(parts[i], i, shares[i], report);
    scalars.insert(scalars.end(), {loss.value.value(), loss.asked, loss.correct});
    report.tokens += parts[i].tokens();
  }
  const Tensor finite = scaler_ ? scaler_->unscale(context_, model_.parameters()) : Tensor();
  scalars.insert(scalars.end(), {clip_norm(context_, model_.parameters(), config_.clip_norm), finite});
  const std::vector<double> numbers = read_numbers(context_, std::move(scalars));  // the one wait of a step
  for (std::size_t i = 0; i < parts.size(); ++i) {
    report.loss += shares[i] * numbers[3 * i];
    report.accuracy += shares[i] * numbers[3 * i + 2] / std::max(1.0, numbers[3 * i + 1]);
  }
  if (scaler_ && !adapt_scale(numbers.back() == 1.0, report)) return;
  report.gradient_norm = numbers[numbers.size() - 2];
  check_finite(parts, report);
  clip_value(context_, model_.parameters(), config_.clip_value);
  adamw_.step(rate);
  if (average_) average_->update();
}

// May the step be taken?
bool Stepper::adapt_scale(bool finite, StepReport& report) {
  if (!finite) adamw_.zero_grad();
  scaler_->adapt(finite);
  report.skipped = !finite;
  report.loss_scale = scaler_->scale();
  return finite;
}

// Runs the step again and stops at the first operation whose result is not finite.
std::string Stepper::find_source(std::span<const Batch> parts, const StepReport& report) {
  const std::string parameter = bad_gradient(model_.parameters());
  const std::string fallback = parameter.empty() ? "the loss is not finite" : "the gradient of " + parameter;
  adamw_.zero_grad();
  for (std::size_t part = 0; part < parts.size(); ++part) {
    FiniteWatch watch;
    TapeOptions options = tape_options(report, part);
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

// Called before the update, so that the parameters are still the good ones.
void Stepper::check_finite(std::span<const Batch> parts, const StepReport& report) {
  if (std::isfinite(report.loss) && std::isfinite(report.gradient_norm)) return;
  std::string hint = "a lower train.lr, a longer train.warmup, or train.clip_norm=1";
  const Path last = Path(config_.out) / "last";
  if (!config_.out.empty() && is_there(last)) hint += "; the last good state is " + last.string();
  fail(ErrorCode::diverged, fmt::format("training diverged: {}", find_source(parts, report)),
       fmt::format("step {}", report.step), hint);
}

}  // namespace fovea
