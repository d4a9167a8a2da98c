#pragma once

#include <memory>
#include <span>
#include <vector>

#include "models/network.h"
#include "nn/stage.h"

namespace fovea {

// What one rank does of a model that ranks have in stages (nn::Stage): chunk by chunk it takes rows of the rank before
// it, gives its own to the next, and their gradients the other way. One rank does all of it.
class Pipeline {
 public:
  Pipeline() = default;                                     // one rank
  Pipeline(const dist::Group& ranks, std::int64_t chunks);  // of each rank; a call of all of them

  const nn::Stage& stage() const { return stage_; }
  bool divides() const { return stage_.ranks > 1; }
  std::vector<std::int64_t> chunks() const;  // of this rank

  // A chunk on one part of a batch.
  struct Pass {
    std::int64_t chunk = 0;
    std::vector<Var> in = {}, out = {};  // rows of each input that other ranks have made, and that others go on with
    Loss loss = {};                      // after the last chunk; before it what layers add to its value, or nothing
    Var output = {};                     // after the last chunk, where the loss was not asked for
  };
  struct Work {
    const ModelConfig& config;
    const Network& network;
    const Batch& batch;
    const LossOptions* options;  // null: the output
  };
  Pass forward(Tape& tape, const Work& work, std::int64_t chunk) const;
  // From the gradient of the loss. Passes of a rank go back in the order in which the rank after it gives gradients.
  void backward(Tape& tape, Pass& pass, const Tensor& factor) const;

  // Until others have taken what was given; abandon(): after an error that they were told.
  void settle() const;
  void abandon() const noexcept;

  std::uint64_t given() const;  // bytes that this rank has given to its neighbours

  // What the last rank has, for all of them; the sums of numbers of which each has some.
  Var for_all(const Context& context, const Var& output) const;
  std::vector<double> sum(std::span<const double> numbers) const;

 private:
  struct Links;
  Pass whole(Tape& tape, const Work& work) const;
  Var take(Tape& tape, const Work& work, const nn::Layout& layout) const;

  dist::Group ranks_;
  nn::Stage stage_;
  std::shared_ptr<Links> links_;
};

}  // namespace fovea
