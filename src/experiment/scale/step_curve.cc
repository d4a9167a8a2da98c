#include "experiment/scale/step_curve.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "fovea/mechanism.h"

namespace fovea {
namespace {

constexpr std::int64_t kShortest = 128, kSteps = 5;
// Short sequences are measured several at a time, as batches have them.
constexpr std::int64_t kFewTokens = 4096;
// Weights, their gradients and AdamW's two moments, f32.
constexpr double kBytesOfWeight = 16.0;

class Probe {
 public:
  Probe(const ContextOptions& machine, const ModelConfig& model, const TrainConfig& train, const ProbeOptions& options)
      : machine_(machine), model_(model), train_(train), options_(options) {
    train_.steps = kSteps;
    train_.minutes = 0.0;
    train_.accumulation = 1;
    train_.prefetch = 0;
    train_.graphs = false;
  }

  // The two lengths that are measured: the one wanted and its half, or shorter ones where a step would take too long.
  void choose_lengths(const std::string& mechanism) {
    long_ = std::min(options_.length, kShortest);
    while (long_ < options_.length) {
      const std::int64_t next = std::min(2 * long_, options_.length);
      const double growth = static_cast<double>(next) / static_cast<double>(long_);
      if (measure({mechanism, mechanism}, long_).seconds * growth * growth > options_.seconds) break;
      long_ = next;
    }
    short_ = std::max<std::int64_t>(1, long_ / 2);
  }

  StepCost measure(std::vector<std::string> layers, std::int64_t length) const {
    if (options_.told) options_.told(fmt::format("timing {} layers at length {}", layers.size(), length));
    ModelConfig model = model_;
    model.layers = std::move(layers);
    TrainConfig train = train_;
    train.batch = batch_at(length);
    const Dataset data = random_tokens({.task = model.task,
                                        .examples = train.batch,
                                        .length = length,
                                        .vocabulary = model.vocabulary,
                                        .classes = model.classes});
    options_.ranks.barrier();
    StepCost cost = measure_steps(machine_, model, data, train);
    const std::vector<double> seconds = options_.ranks.all_gather(std::array{cost.seconds});
    cost.seconds = *std::max_element(seconds.begin(), seconds.end());
    return cost;
  }

  // Adds the piece of a mechanism to the model; the first also tells what there is besides layers.
  void add(const std::string& mechanism, StepModel& to) const {
    const bool quadratic = !Mechanism::parse(mechanism).subquadratic();
    struct Sample {
      StepCost one, two;
    };
    const auto sample = [&](std::int64_t n) {
      return Sample{measure({mechanism}, n), measure({mechanism, mechanism}, n)};
    };
    const Sample at_short = sample(short_), at_long = sample(long_);
    const auto curve = [&](auto value, bool square) {
      return fit_curve({points(short_), static_cast<double>(short_), value(at_short)},
                       {points(long_), static_cast<double>(long_), value(at_long)}, square);
    };
    const auto layer_seconds = [](const Sample& s) { return s.two.seconds - s.one.seconds; };
    const auto layer_bytes = [](const Sample& s) { return activations(s.two) - activations(s.one); };
    to.layers[mechanism] = {curve(layer_seconds, quadratic), curve(layer_bytes, quadratic),
                            at_long.two.parameters - at_long.one.parameters};
    if (to.layers.size() > 1) return;
    to.outside = {curve([&](const Sample& s) { return 2.0 * s.one.seconds - s.two.seconds; }, false),
                  curve([&](const Sample& s) { return 2.0 * activations(s.one) - activations(s.two); }, false),
                  2 * at_long.one.parameters - at_long.two.parameters};
    to.probed_length = long_;
    to.probed_batch = batch_at(long_);
  }

 private:
  static double activations(const StepCost& cost) {
    return static_cast<double>(cost.peak_memory) - kBytesOfWeight * static_cast<double>(cost.parameters);
  }
  std::int64_t batch_at(std::int64_t length) const {
    return std::clamp<std::int64_t>(kFewTokens / length, 1, options_.batch);
  }
  double points(std::int64_t length) const { return static_cast<double>(batch_at(length)); }

  ContextOptions machine_;
  ModelConfig model_;
  TrainConfig train_;
  ProbeOptions options_;
  std::int64_t short_ = 0, long_ = 0;
};

}  // namespace

void CostCurve::fields(FieldVisitor& v) {
  v("fixed", fixed, "of a step");
  v("per_token", per_token, "of a token");
  v("per_pair", per_pair, "of a pair of tokens");
}

void PieceCost::fields(FieldVisitor& v) {
  v("seconds", seconds, "time of a step");
  v("bytes", bytes, "activations");
  v("weights", weights, "numbers");
}

CostCurve fit_curve(const CurvePoint& shorter, const CurvePoint& longer, bool quadratic) {
  const double a = shorter.sequences * shorter.length, b = longer.sequences * longer.length;
  if (quadratic) {  // y / tokens is a line over the length
    const double low = shorter.value / a, high = longer.value / b;
    const double slope =
        longer.length > shorter.length ? std::max(0.0, (high - low) / (longer.length - shorter.length)) : 0.0;
    const double start = high - slope * longer.length;
    if (start >= 0.0) return {0.0, start, slope};
    return {0.0, 0.0, std::max(0.0, high / longer.length)};
  }
  const double slope = b > a ? (longer.value - shorter.value) / (b - a) : longer.value / b;
  if (slope <= 0.0) return {std::max(0.0, longer.value), 0.0, 0.0};
  const double start = longer.value - slope * b;
  if (start >= 0.0) return {start, slope, 0.0};
  return {0.0, std::max(0.0, longer.value / b), 0.0};
}

std::int64_t StepModel::weights() const {
  std::int64_t sum = outside.weights;
  for (const std::string& layer : order) sum += layers.at(layer).weights;
  return sum;
}

double StepModel::seconds(double sequences, double length) const {
  double sum = outside.seconds.at(sequences, length);
  for (const std::string& layer : order) sum += layers.at(layer).seconds.at(sequences, length);
  return sum;
}

double StepModel::activation_bytes(double sequences, double length) const {
  double sum = outside.bytes.at(sequences, length);
  for (const std::string& layer : order) sum += layers.at(layer).bytes.at(sequences, length);
  return sum;
}

StepModel probe_steps(const ContextOptions& machine, const ModelConfig& model, const TrainConfig& train,
                      const ProbeOptions& options) {
  StepModel out;
  out.order = model.layers;
  Probe probe(machine, model, train, options);
  std::vector<std::string> kinds = model.layers;
  std::sort(kinds.begin(), kinds.end());
  kinds.erase(std::unique(kinds.begin(), kinds.end()), kinds.end());
  // Those that grow fastest first: their steps say how long sequences may be.
  std::stable_partition(kinds.begin(), kinds.end(),
                        [](const std::string& m) { return !Mechanism::parse(m).subquadratic(); });
  probe.choose_lengths(kinds.front());
  for (const std::string& kind : kinds) probe.add(kind, out);
  return out;
}

}  // namespace fovea
