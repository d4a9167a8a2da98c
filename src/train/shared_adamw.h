#pragma once

#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "dist/group.h"
#include "fovea/optim.h"
#include "fovea/safetensors.h"

namespace fovea {

// AdamW whose moments ranks may divide: each keeps those of its share of all numbers, in the order of the parameters,
// updates these, and gives their new values to the others. The same bits as one that has them all: moments and weights
// of a number depend on no other.
class SharedAdamW {
 public:
  SharedAdamW(Context& context, std::vector<Parameter> parameters, AdamWOptions options);

  // Before the first step: divides the moments among these ranks. One rank has all of them, as before.
  void divide(const dist::Group& ranks);

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
  };
  // Parameters that travel together: `rows` of each rank.
  struct Bucket {
    std::size_t first = 0, end = 0;  // parameters
    std::int64_t size = 0;
    std::vector<std::int64_t> rows;
  };
  using SliceOf = std::function<Tensor(std::size_t own)>;  // the rank's own part, by range
  using WholeOf = std::function<Tensor(std::size_t parameter)>;

  bool divided() const { return ranks_.size() > 1; }
  void cut(std::int64_t begin, std::int64_t end);
  void make_buckets();
  void gather(const SliceOf& own, const WholeOf& whole) const;

  Context* context_;
  AdamWOptions options_;
  std::vector<Parameter> parameters_;
  dist::Group ranks_;
  std::vector<ParameterRange> ranges_;  // of this rank
  std::vector<Bucket> buckets_;
  std::unique_ptr<AdamW> own_;  // of the parameters, or of the ranges
};

}  // namespace fovea
