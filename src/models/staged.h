#pragma once

#include "models/network.h"
#include "nn/stack.h"

namespace fovea {

// A model that is one stack between what makes its rows and what reads them: ranks may have it in stages. Of what
// another rank has, `begin` and `end` are not asked.
class StagedNetwork : public Network {
 public:
  const StagedNetwork* staged() const final { return this; }
  // What the stack reads, one sequence of layers after another: two of models that compare.
  virtual std::vector<const Input*> inputs(const Batch& batch) const { return {&batch.input}; }
  // How the rows of an input lie and, where `makes` them, the rows before the first layer.
  virtual nn::Source begin(Tape& tape, const Input& input, bool makes) const = 0;
  virtual const nn::Stack& stack() const = 0;
  // From the rows after the last layer, of each input: what Model::forward() and Model::loss() have.
  virtual Var output(Tape& tape, std::span<const nn::Source> rows) const = 0;
  virtual Loss end(Tape& tape, std::span<const nn::Source> rows, const Batch& batch,
                   const LossOptions& options) const = 0;

  Var forward(Tape& tape, const Batch& batch) const final { return output(tape, through(tape, batch)); }
  Loss loss(Tape& tape, const Batch& batch, const LossOptions& options) const final {
    return end(tape, through(tape, batch), batch, options);
  }

  // Random numbers of input i do not depend on how many those before it took, which another rank may not know.
  static void start_input(Tape& tape, std::size_t i);

 protected:
  nn::Source through(Tape& tape, const Input& input) const;

 private:
  std::vector<nn::Source> through(Tape& tape, const Batch& batch) const;
};

}  // namespace fovea
