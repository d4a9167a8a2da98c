#pragma once

#include "fovea/tensor.h"

// Temperatures of heads, dense: out (heads, d) = e^min(log_h, most), log (heads).
namespace fovea::kernels {

struct Temperature {
  Tensor log, out;
  double most;
};
template <Device>
void temperature(const Context& context, const Temperature& io);

// d_log (heads) = the sums of out g over a head; 0 from `most` on.
struct TemperatureVjp {
  Tensor log, out, g, d_log;
  double most;
};
template <Device>
void temperature_backward(const Context& context, const TemperatureVjp& io);

}  // namespace fovea::kernels
