#pragma once

#include <map>
#include <memory>
#include <span>
#include <vector>

#include "dist/mesh.h"
#include "dist/worker.h"
#include "fovea/model.h"
#include "train/bucket_watch.h"

namespace fovea {

// Adds up the gradients of a weight over the ranks that have it, or the same part of it: every one of them gets the
// sum, in f32 (f64 for f64). Parameters lie in buckets, the last of the model first, which travel on a thread of their
// own.
class GradientExchange : public BucketWatch {
 public:
  GradientExchange(std::span<const Parameter> parameters, const dist::Mesh& mesh);

  TapeObserver* watch(TapeObserver* other, bool last_part) override { return last_part ? watch_for(other) : other; }
  void end_part(bool) override {}
  // Gradients are those of all ranks. One that no rank has stays undefined.
  void finish(std::int64_t rounds) override;
  void abandon(const Error& error) noexcept override;

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
  };

  void find_sharers(std::span<const Parameter> parameters, const dist::Mesh& mesh);
  void add(const Parameter& p);
  void launch(std::size_t bucket) override;
  void send(const Bucket& bucket) const;

  dist::Group ranks_;  // all
  std::map<Sharers, dist::Group> sharers_;
  std::vector<Bucket> buckets_;
  dist::Worker worker_;  // the last: it uses all of the others
};

}  // namespace fovea
