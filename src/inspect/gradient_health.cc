#include "inspect/gradient_health.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <chrono>
#include <cmath>

#include "core/visit_device.h"
#include "inspect/layer.h"
#include "io/field_visitor.h"
#include "ops/numbers.h"
#include "optim/update_kernels.h"
#include "tensor/views.h"

namespace fovea {

using inspection::ScoreTheory;

// Lets a gradient through, and keeps what the first sequence has of it.
struct HealthGate {
  GradientHealth* health;
  std::size_t seen;
  Sequences::Rows rows;

  static void backward(Tape& tape, Node& node) {
    const auto& gate = std::any_cast<const HealthGate&>(node.attributes);
    const Sequences::Rows& rows = gate.rows;
    gate.health->seen_[gate.seen].d_output = node.grad()
                                                 .slice(0, rows.batch, rows.batch + 1)
                                                 .slice(1, rows.begin, rows.begin + rows.count)
                                                 .to_vector<float>();
    tape.accumulate(node.inputs[0], node.grad());
  }
};

namespace {

constexpr Op kHealthGate{"health", HealthGate::backward};

// "layers.1.attention.qkv.weight" belongs to "model.layers[1]", "embedding.tokens" to "model.embedding".
std::string part_of(const std::string& parameter) {
  std::string place = "model";
  for (std::size_t begin = 0; begin < parameter.size();) {
    const std::size_t end = std::min(parameter.find('.', begin), parameter.size());
    const std::string word = parameter.substr(begin, end - begin);
    if (std::isdigit(static_cast<unsigned char>(word.front())) != 0) return place + "[" + word + "]";
    if (begin > 0 && place != "model.decoder" && place != "model.encoder") return place;
    place += "." + word;
    begin = end + 1;
  }
  return place;
}

PartHealth health_of(const std::string& place, const Spread& norms) {
  const double deviation = norms.relative_deviation();
  return {place, norms.count, norms.mean, std::isfinite(deviation) ? deviation : 0.0, norms.largest, norms.last};
}

}  // namespace

GradientHealth::GradientHealth(Context& context, const Model& model, Options options)
    : context_(context), host_(inspection::host_context(context)), options_(std::move(options)) {
  for (const Parameter& parameter : model.parameters()) {
    if (!parameter.trained()) continue;
    const std::string place = part_of(parameter.name);
    auto part = std::find_if(parts_.begin(), parts_.end(), [&](const Part& p) { return p.place == place; });
    if (part == parts_.end()) part = parts_.insert(part, Part{place, {}});
    index_[parameter.var.slot().get()] = leaves_.size();
    leaves_.push_back({static_cast<std::size_t>(part - parts_.begin()), {}});
  }
  if (model.config().dtype == DType::f16) loss_scale_ = LossScaler().scale();
}

void GradientHealth::on_begin(const Tape&) {
  ++tapes_;
  engine_ = {};
}

// Of batches in several parts, the last word counts: gradients of leaves add up.
void GradientHealth::on_complete(const Tape& tape, const std::shared_ptr<Slot>& leaf) {
  const auto known = index_.find(leaf.get());
  if (known == index_.end() || !leaf->grad.defined()) return;
  const kernels::GradientNorm io{{leaf->grad}, Tensor::empty(tape.context(), {}, DType::f64)};
  visit_device(tape.context(), io, [&]<Device D>() { kernels::gradient_norm<D>(tape.context(), io); });
  leaves_[known->second].norm = io.norm;
}

void GradientHealth::on_tiled(const TiledSeen& seen) {
  ++engine_.calls;
  bool softmax = true;
  for (const TiledRun& run : seen.runs)
    softmax = softmax && !run.work.rule && run.work.problem.weight == tile::Weight::softmax;
  engine_.theory = softmax ? ScoreTheory::softmax : ScoreTheory::none;
  engine_.v = seen.v.value();
}

void GradientHealth::on_scan(const ScanSeen& seen) {
  ++engine_.calls;
  const scan::Problem& problem = seen.problem;
  engine_.theory = problem.decay != scan::Decay::none               ? ScoreTheory::none
                   : problem.rms_norm                               ? ScoreTheory::norm
                   : problem.denominator != scan::Denominator::none ? ScoreTheory::denominator
                                                                    : ScoreTheory::none;
  engine_.norm_eps = problem.norm_eps;
  engine_.v = seen.v.value();
}

void GradientHealth::keep(const std::string& place, const Call& call) {
  const bool whole = engine_.calls == 1 && same_place(engine_.v, call.v.value());
  seen_.push_back({place,
                   inspection::sequence_of(host_, call, 0),
                   whole ? engine_.theory : ScoreTheory::none,
                   engine_.norm_eps,
                   {}});
}

// Calls of the first tape of a step that is looked at. In a recompute segment the first run has no gradient and the
// second one has: it is asked for there.
Var GradientHealth::on_attention(const Call& call, const Var& output) {
  if (looks_ && tapes_ == 1 && call.tape.training() && !call.queries.empty()) {
    const std::string place = call.tape.path(call.tape.place());
    if (!call.tape.replaying()) keep(place, call);
    engine_ = {};
    if (!call.tape.recording()) return output;
    for (std::size_t i = seen_.size(); i-- > 0;)
      if (seen_[i].place == place)
        return call.tape.record(kHealthGate, {output}, output.value(), {}, HealthGate{this, i, call.queries.front()});
  }
  engine_ = {};
  return output;
}

void GradientHealth::measure_parts(const StepReport& report) {
  std::vector<Tensor> scalars;
  std::vector<std::size_t> part;
  for (Leaf& leaf : leaves_) {
    if (!leaf.norm.defined()) continue;
    scalars.push_back(std::exchange(leaf.norm, {}));
    part.push_back(leaf.part);
  }
  norms_.assign(parts_.size(), 0.0);
  if (report.skipped) return;
  const std::vector<double> lengths = read_numbers(context_, std::move(scalars));
  for (std::size_t i = 0; i < lengths.size(); ++i) norms_[part[i]] += lengths[i] * lengths[i];
  for (double& norm : norms_) norm = std::sqrt(norm) / loss_scale_;
}

void GradientHealth::measure_scores() {
  for (Seen& seen : seen_) {
    for (float& g : seen.d_output) g /= static_cast<float>(loss_scale_);
    const bool fits =
        static_cast<std::int64_t>(seen.d_output.size()) == seen.call.q.dim(1) * seen.call.q.dim(2) * seen.call.v.dim(3);
    const ScoreHealth found =
        inspection::score_health(host_, {seen.call, seen.theory, seen.norm_eps,
                                         fits ? std::span<const float>(seen.d_output) : std::span<const float>()});
    now_.push_back({seen.place, seen.call.mechanism.text(), std::string(name_of(seen.theory)), found});
    const auto [at, is_new] = known_.try_emplace(seen.place, attention_.size());
    if (is_new)
      attention_.push_back(now_.back());
    else
      attention_[at->second].worst.take_worse(found);
  }
  looked_ += seen_.empty() ? 0 : 1;
}

// What is wrong with the gradients of a step and with the scores that were looked at in it.
std::vector<GradientHealth::Fault> GradientHealth::faults() const {
  const HealthLimits& limits = options_.limits;
  std::vector<Fault> found;
  for (std::size_t i = 0; i < parts_.size(); ++i) {
    const auto& [place, before] = parts_[i];
    if (!std::isfinite(norms_[i]))
      found.push_back({place, "gradients are not finite", ""});
    else if (before.count >= limits.settled && norms_[i] > limits.spike * before.mean)
      found.push_back({place, "gradients", fmt::format(" {:.0f} times their mean", norms_[i] / before.mean)});
    else if (before.count >= limits.settled && norms_[i] == 0.0)
      found.push_back({place, "no gradient arrives", ""});
  }
  for (const AttentionHealth& layer : now_) {
    const ScoreHealth& scores = layer.worst;
    if (scores.max_logit && !(*scores.max_logit <= limits.logit))
      found.push_back({layer.place, "logits", fmt::format(" up to {:.3g}", *scores.max_logit)});
    if (scores.saturated && *scores.saturated >= limits.saturated)
      found.push_back({layer.place, "saturated rows", fmt::format(": {:.0f}%", 100.0 * *scores.saturated)});
    if (scores.derivative && !(*scores.derivative <= limits.derivative))
      found.push_back({layer.place, "denominators near 0", fmt::format(", |dp/ds| up to {:.2g}", *scores.derivative)});
  }
  return found;
}

// The first thing that is wrong is what a progress line has room for.
void GradientHealth::judge(const StepReport& report) {
  const std::vector<Fault> found = faults();
  for (const Fault& fault : found)
    if (told_.emplace(fault.place, fault.what).second)
      warnings_.push_back(fmt::format("step {}: {}", report.step, fault.text()));
  if (!found.empty())
    wrong_ = found.front().text();
  else if (looks_)
    wrong_.clear();  // what was wrong with the scores stands until the next look
  if (options_.warn) options_.warn(wrong_);
}

void GradientHealth::on_step(const StepReport& report) {
  const auto start = std::chrono::steady_clock::now();
  now_.clear();
  measure_parts(report);
  if (!report.skipped) {
    if (looks_) measure_scores();
    judge(report);
    for (std::size_t i = 0; i < parts_.size(); ++i) parts_[i].norms.add(norms_[i]);
    all_.add(report.gradient_norm);
    ++steps_;
  }
  if (report.loss_scale > 0.0) loss_scale_ = report.loss_scale;
  seen_.clear();
  tapes_ = 0;
  looks_ = (report.step + 1) % options_.every == 0;
  seconds_ += std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

std::vector<std::string> GradientHealth::parts() const {
  std::vector<std::string> places;
  for (const Part& part : parts_) places.push_back(part.place);
  return places;
}

HealthReport GradientHealth::report() const {
  HealthReport report{steps_, looked_, seconds_, health_of("model", all_), {}, attention_, warnings_};
  for (const Part& part : parts_) report.parts.push_back(health_of(part.place, part.norms));
  return report;
}

void PartHealth::fields(FieldVisitor& v) {
  v("place", place, "part of the model");
  v("steps", steps, "whose gradients were finite", at_least(0));
  v("mean", mean, "norm of its gradients before clipping", at_least(0));
  v("relative_deviation", relative_deviation, "of these norms: population deviation over mean");
  v("largest", largest, "of these norms", at_least(0));
  v("last", last, "of these norms", at_least(0));
}

void AttentionHealth::fields(FieldVisitor& v) {
  v("place", place, "attention layer");
  v("mechanism", mechanism, "of it");
  v("theory", theory, "which bound holds: softmax (9), denominator (11), norm (15) or none");
  v("max_logit", worst.max_logit, "largest score");
  v("saturated", worst.saturated, "share of softmax rows with nearly all on one key", between(0, 1));
  v("derivative", worst.derivative, "largest |dp/ds|");
  v("derivative_bound", worst.derivative_bound, "what it cannot exceed");
  v("gradient", worst.gradient, "largest |dL/ds|");
  v("gradient_bound", worst.gradient_bound, "what it cannot exceed");
  v("paper_bound", worst.paper_bound, "the same by equation 15 of the TransNormer paper");
}

void HealthReport::fields(FieldVisitor& v) {
  v("steps", steps, "that were watched", at_least(0));
  v("looked", looked, "of these, with a look at the scores", at_least(0));
  v("seconds", seconds, "that watching took between steps", at_least(0));
  v("all", all, "gradients of the whole model");
  v("parts", parts, "gradients by part");
  v("attention", attention, "scores by attention layer, the worst that was seen");
  v("warnings", warnings, "what went wrong, and when first");
}

}  // namespace fovea
