#pragma once

#include <atomic>
#include <vector>

#include "dist/group.h"
#include "dist/worker.h"
#include "train/bucket_watch.h"
#include "train/shared_adamw.h"

namespace fovea {

// Adds up the gradients of all ranks, of which each keeps those of its share (SharedAdamW): a bucket goes as soon as
// its gradients are complete, part by part of a step, and the gradients of the others are dropped. Sums are f32 (f64
// for f64).
class GradientShares : public BucketWatch {
 public:
  GradientShares(Context& context, const SharedAdamW& adamw, const dist::Group& ranks);

  TapeObserver* watch(TapeObserver* other, bool) override { return watch_for(other); }
  void end_part(bool last) override;
  void finish(std::int64_t rounds) override;  // gradients of the shares are complete
  void abandon(const Error& error) noexcept override;

  std::size_t bytes() const;                  // of the gradients that this rank keeps
  std::size_t peak() const { return peak_; }  // the most of the others' that waited to be sent

 private:
  struct Sum {
    Tensor share;            // of this rank, f32 (f64)
    std::vector<double> of;  // for each parameter, ranks and parts that had a gradient
  };
  using Gradients = std::vector<Tensor>;

  void launch(std::size_t bucket) override;
  void send(std::size_t bucket, const Gradients& gradients);
  const ParameterBucket& bucket(std::size_t i) const;

  Context& context_;
  const SharedAdamW& adamw_;
  dist::Group ranks_;
  std::vector<Sum> sums_;
  std::int64_t rounds_ = 0;
  std::atomic<std::size_t> waiting_ = 0;  // bytes of whole gradients
  std::size_t peak_ = 0;
  dist::Worker worker_;  // the last: it uses all of the others
};

}  // namespace fovea
