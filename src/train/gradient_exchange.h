#pragma once

#include <map>
#include <memory>
#include <span>
#include <unordered_map>
#include <vector>

#include "dist/mesh.h"
#include "dist/worker.h"
#include "fovea/model.h"

namespace fovea {

// Adds up the gradients of all ranks while backward still makes them: those of a weight, over the ranks that have it,
// or the same part of it. Parameters lie in buckets, the last of the model first; a bucket goes, on a thread of its
// own, when the gradients of all its parameters are complete and those before it have gone: the same order on every
// rank. Sums are f32 (f64 for f64).
class GradientExchange : public TapeObserver {
 public:
  GradientExchange(std::span<const Parameter> parameters, const dist::Mesh& mesh);

  // Who is to watch the tape of a step's last part: this one, and behind it whoever watches already. Where there is one
  // rank nothing needs watching.
  TapeObserver* watch(TapeObserver* other);
  // Sends what has not gone and waits: gradients are those of all ranks. One that no rank has stays undefined.
  void finish();
  // The step failed: tells the other ranks, and waits for what is going on.
  void abandon(const Error& error) noexcept;

  void on_begin(const Tape& tape) override;
  void on_values(const Tape& tape, const Op& op, std::span<const Tensor> values) override;
  void on_gradients(const Tape& tape, const Node& node) override;
  void on_complete(const Tape& tape, const std::shared_ptr<Slot>& leaf) override;

 private:
  // Who has the same parameter, or the same part of it.
  struct Sharers {
    bool cut = false;
    std::vector<int> stages = {};  // of a pipeline, where there are several

    Sharers() = default;
    Sharers(bool is_cut, std::vector<int> of) : cut(is_cut), stages(std::move(of)) {}
    explicit Sharers(const Parameter& p) : cut(p.cut.cuts()), stages(p.stages) {}
    auto operator<=>(const Sharers&) const = default;
  };
  // Gradients one after another, then for each parameter how many ranks have one.
  struct Bucket {
    Sharers sharers;
    std::vector<Var> parameters;
    Tensor numbers;
    std::int64_t size = 0;
    std::size_t complete = 0;
  };

  void find_sharers(std::span<const Parameter> parameters, const dist::Mesh& mesh);
  void add(const Parameter& p);
  void launch();
  void send(const Bucket& bucket) const;

  dist::Group ranks_;  // all
  std::map<Sharers, dist::Group> sharers_;
  std::vector<Bucket> buckets_;
  std::unordered_map<const Slot*, std::size_t> bucket_of_;
  std::size_t launched_ = 0;
  TapeObserver* other_ = nullptr;
  dist::Worker worker_;  // the last: it uses all of the others
};

}  // namespace fovea
