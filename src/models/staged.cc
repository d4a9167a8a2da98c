#include "models/staged.h"

namespace fovea {

void StagedNetwork::start_input(Tape& tape, std::size_t i) {
  constexpr int kStreamsPerInputBits = 19;  // of the 20 of a tape
  if (i > 0) tape.set_stream((tape.stream() >> kStreamsPerInputBits | i) << kStreamsPerInputBits);
}

nn::Source StagedNetwork::through(Tape& tape, const Input& input) const {
  const nn::Source x = begin(tape, input, true);
  return {stack()(tape, x.rows, x.layout), x.layout};
}

std::vector<nn::Source> StagedNetwork::through(Tape& tape, const Batch& batch) const {
  const std::vector<const Input*> all = inputs(batch);
  std::vector<nn::Source> rows;
  for (std::size_t i = 0; i < all.size(); ++i) {
    start_input(tape, i);
    rows.push_back(through(tape, *all[i]));
  }
  return rows;
}

}  // namespace fovea
