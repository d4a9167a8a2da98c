#pragma once

#include "fovea/tensor.h"

// Logarithms of mixing weights, dense and of the wide type: t (b, heads, n, count), whose columns (over n) sum to 1,
// shares (b, heads, count, count), whose rows do, and offset (b, heads, count).
namespace fovea::kernels {

// out = log(max(shares_aa + beta (t_ia - mean over a of t_i), 1e-8)) + offset_a.
struct LogMixing {
  Tensor t, shares, offset, out;
  double beta;
};
template <Device>
void log_mixing(const Context& context, const LogMixing& io);

struct LogMixingVjp {
  Tensor t, shares, g;
  Tensor d_t, d_shares, d_offset;  // the last two start as 0
  double beta;
};
template <Device>
void log_mixing_backward(const Context& context, const LogMixingVjp& io);

}  // namespace fovea::kernels
