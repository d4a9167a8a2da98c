#pragma once

#include <functional>
#include <map>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "fovea/train.h"
#include "inspect/health_report.h"
#include "inspect/score_health.h"
#include "mechanisms/watch.h"
#include "train/spread.h"

namespace fovea {

// What is wrong above these; docs/inspect.md.
struct HealthLimits {
  double logit = 100.0;       // scores
  double saturated = 0.9;     // share of softmax rows
  double derivative = 1e3;    // |dp/ds|
  double spike = 10.0;        // gradients of a part as a multiple of their mean so far
  std::int64_t settled = 20;  // steps before a mean counts
};

// Watches the gradients of training steps by part of the model, and every so many steps the scores of each attention
// layer on the first sequence of the batch. With several ranks: of what this one computes.
class GradientHealth final : public TapeObserver, public TrainObserver, public AttentionWatch {
 public:
  struct Options {
    std::int64_t every = 10;  // steps between two looks at the scores; the first step is looked at, too
    HealthLimits limits = {};
    std::function<void(const std::string&)> warn = {};  // what is wrong after a step; empty: nothing
  };
  GradientHealth(Context& context, const Model& model, Options options);

  void on_begin(const Tape& tape) override;
  void on_complete(const Tape& tape, const std::shared_ptr<Slot>& leaf) override;
  void on_step(const StepReport& report) override;
  void on_tiled(const TiledSeen& seen) override;
  void on_scan(const ScanSeen& seen) override;
  Var on_attention(const Call& call, const Var& output) override;

  // After a step: the norm of each of parts(); the attention layers that were looked at in it, empty in other steps.
  std::vector<std::string> parts() const;
  const std::vector<double>& norms() const { return norms_; }
  const std::vector<AttentionHealth>& looked_at() const { return now_; }
  HealthReport report() const;

 private:
  struct Part {
    std::string place;
    Spread norms;
  };
  struct Leaf {
    std::size_t part;
    Tensor norm;  // of this step
  };
  // What an engine did in the call that is about to end.
  struct Engine {
    int calls = 0;
    inspection::ScoreTheory theory = inspection::ScoreTheory::none;
    double norm_eps = 0.0;
    Tensor v;
  };
  // A call that is looked at, and the gradient of its output once it is there.
  struct Seen {
    std::string place;
    inspection::SequenceCall call;
    inspection::ScoreTheory theory;
    double norm_eps;
    std::vector<float> d_output;
  };
  struct Fault {
    std::string place, what, how_much;
    std::string text() const { return place + ": " + what + how_much; }
  };
  friend struct HealthGate;

  void keep(const std::string& place, const Call& call);
  void measure_parts(const StepReport& report);
  void measure_scores();
  std::vector<Fault> faults() const;
  void judge(const StepReport& report);

  Context& context_;
  Context host_;
  Options options_;
  std::vector<Part> parts_;
  std::vector<Leaf> leaves_;
  std::unordered_map<const Slot*, std::size_t> index_;  // of leaves_
  Spread all_;
  std::vector<double> norms_;
  std::map<std::string, std::size_t> known_;  // of attention_, by place
  std::vector<AttentionHealth> attention_, now_;
  std::vector<Seen> seen_;  // in this step
  Engine engine_;
  std::vector<std::string> warnings_;                   // with their steps
  std::set<std::pair<std::string, std::string>> told_;  // place and what
  std::string wrong_;                                   // after the last step
  double loss_scale_ = 1.0, seconds_ = 0.0;
  std::int64_t steps_ = 0, looked_ = 0;
  bool looks_ = true;  // in the step that comes, or runs
  int tapes_ = 0;      // of this step
};

}  // namespace fovea
