#pragma once

#include "fovea/tensor.h"
#include "mechanisms/recurrent/state_space.h"

// The filters of filter(). Everything is dense and of the wide type.
namespace fovea::kernels {

struct SpaceTensors {
  Tensor log_dt, decay, frequency, c;  // as those of StateSpace
};

// y of u (b, channels, n).
struct Filter {
  SpaceTensors space;
  Tensor u, y;
  Reads reads;
};
template <Device>
void filter(const Context& context, const Filter& io);

struct FilterVjp {
  SpaceTensors space;
  Tensor u, g, du;
  SpaceTensors d;  // they start as 0
  Reads reads;
};
template <Device>
void filter_backward(const Context& context, const FilterVjp& io);

}  // namespace fovea::kernels
