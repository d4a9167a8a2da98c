#pragma once

#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "dist/group.h"
#include "fovea/optim.h"
#include "fovea/safetensors.h"
#include "models/weight_shares.h"
#include "train/parameter_buckets.h"

namespace fovea {

// AdamW whose moments ranks may divide: each keeps those of its share of every bucket of parameters, updates these, and
// gives their new values to the others. The same bits as one that has them all: moments and weights
// of a number depend on no other.
class SharedAdamW {
 public:
  SharedAdamW(Context& context, std::vector<Parameter> parameters, AdamWOptions options);

  // Before the first step: divides the moments among these ranks, and with gradients also these, which are then given
  // by set_gradients(). One rank has all of them, as before.
  // Where the weights of layers are divided, it updates the shares of these.
  void divide(const dist::Group& ranks, bool gradients = false, WeightShares* weights = nullptr);
  const std::vector<Parameter>& whole() const { return parameters_; }  // that are trained
  const std::vector<ParameterBucket>& buckets() const { return buckets_; }
  // What has the gradients that steps are taken with: the parameters, or the ranges of them in this rank's share.
  const std::vector<Parameter>& held() const { return own_->parameters(); }
  bool divides_gradients() const { return divides_gradients_; }
  // Of this rank's share of a bucket; of: for each of its parameters how many gave one, 0: it is left alone.
  void set_gradients(std::size_t bucket, const Tensor& share, std::span<const double> of) const;

  // As AdamW has them; `apply` is a call of all ranks.
  std::vector<double> pace(double rate) const { return own_->pace(rate); }
  void apply(const Context& context, const Tensor& pace, const Tensor& go = {}) const;
  void advance() { own_->advance(); }
  std::size_t rates() const { return own_->rates(); }
  void zero_grad();
  std::int64_t steps() const { return own_->steps(); }
  void set_steps(std::int64_t steps) { own_->set_steps(steps); }

  // All moments under their names in a checkpoint, "first." and "second.": a call of all ranks, of which those that
  // `keep` get them.
  std::vector<NamedTensor> moments(bool keep) const;
  // Room to read them into, and what is done with what was read.
  std::vector<NamedTensor> room_for_moments() const;
  void take_moments(std::span<const NamedTensor> read);

  std::size_t bytes() const;  // of the moments that this rank keeps

 private:
  // Some of a parameter's numbers: [begin, end) of them, which are [at, ...) of all.
  struct ParameterRange {
    std::size_t parameter;
    std::int64_t begin, end;
    std::size_t bucket;
    std::int64_t at;  // in the rank's share of the bucket
  };
  using SliceOf = std::function<Tensor(std::size_t own)>;  // the rank's own part, by range
  using WholeOf = std::function<Tensor(std::size_t parameter)>;

  bool divided() const { return ranks_.size() > 1; }
  void cut();
  Tensor numbers_of(const ParameterRange& range) const;
  void gather(const ParameterBucket& bucket, const SliceOf& own, const WholeOf& whole) const;

  Context* context_;
  AdamWOptions options_;
  std::vector<Parameter> parameters_;
  dist::Group ranks_;
  std::vector<ParameterRange> ranges_;  // of this rank
  std::vector<ParameterBucket> buckets_;
  bool divides_gradients_ = false;
  WeightShares* weights_ = nullptr;
  std::unique_ptr<AdamW> own_;  // of the parameters, or of the ranges
};

}  // namespace fovea
