#pragma once

#include "core/scratch.h"
#include "scan/driver.h"

// Decay between chunks: over whole segments, and its gradient.
namespace fovea::scan {

// What a state of one kv head is multiplied with on its way over rows [begin, end) of a piece: a factor per channel.
template <class R>
std::vector<R> decay_over(const Problem& problem, const In& log_decay, const Cut& cut, std::size_t kv_head);

// The gradient of g at step t is that of everything behind it, which the kernels leave row by row in d_log_decay:
//
//   dg_t = sum over u >= t of (f(q_u) df(q_u) - f(k_u) df(k_u)) + the final state times its gradient
//
// by channel, or summed over the channels. Runs along in double: thousands of terms cancel where decay is strong.
template <class R>
class DecayGradient {
 public:
  DecayGradient(const Context& context, const Problem& problem, const Backward& io, const Wave& wave);

  // The final state of a head as the kernels hold it.
  void end(const StateLayout<R>& layout, std::size_t piece, std::size_t kv_head, const R* state);
  // Puts the sums in place of the rows.
  void sum(std::size_t piece, std::size_t kv_head);

 private:
  double* running(std::size_t piece, std::size_t kv_head) const;

  const Problem& problem_;
  const Backward& io_;
  std::size_t first_piece_, columns_;
  Scratch<double> running_;  // [pieces of the wave][kv_heads][columns]
};

}  // namespace fovea::scan
