#pragma once

#include <vector>

#include "core/scratch.h"
#include "scan/cpu/driver.h"

// Decay between chunks: over whole segments, and its gradient.
namespace fovea::scan {

// What the state of a kv head is multiplied with, channel by channel, on its way over the steps of a cut.
template <class R>
void decay_over(const Problem& problem, const In& log_decay, const Cut& cut, std::size_t kv_head, R* factors);

// The same over whole pieces, (pieces, kv_heads, d_k).
template <class R>
void write_total_decay(const Context& context, const Problem& problem, const In& log_decay, R* to);

// What the states of a wave are multiplied with on their way over each segment: a factor per kv head and channel.
// Summed up once a segment, when its rows are in the cache, and read by the sweeps from both sides.
template <class R>
class SegmentDecays {
 public:
  SegmentDecays(const Context& context, const Problem& problem, const In& log_decay, const Wave& wave);

  void sum_up(std::size_t cut) const;
  // The channels of one kv head.
  const R* of(std::size_t cut, std::size_t kv_head) const {
    return factors_.data() + (cut * kv_heads_ + kv_head) * channels_;
  }

 private:
  const Problem& problem_;
  const In& log_decay_;
  std::vector<Cut> cuts_;
  std::size_t kv_heads_, channels_;
  Scratch<R> factors_;  // [cuts][kv_heads][channels]
};

// The gradient of g at step t, by channel or summed over the channels, is that of everything behind it:
//
//   dg_t = sum over u >= t of (f(q_u) df(q_u) - f(k_u) df(k_u)) + the final state times its gradient
//
// The kernels sum from the right within each segment, in double: thousands of terms cancel where decay is strong.
template <class R>
class DecayGradient {
 public:
  // Nothing but zeros where no gradient is wanted.
  DecayGradient(const Context& context, const Problem& problem, const Backward& io, const Wave& wave);

  bool wanted() const { return columns_ != 0; }
  // Where the sums of a segment start, and run along: [kv_heads][columns].
  double* sums(std::size_t cut) const { return sums_.data() + cut * kv_heads_ * columns_; }
  // The last segment of a piece starts from its final state, as the kernels hold it.
  void start(const StateLayout<R>& layout, std::size_t piece, std::size_t kv_head, const R* state);
  // Adds to each segment what is behind it.
  void join(std::size_t piece, std::size_t kv_head) const;

 private:
  R* row(std::size_t piece, std::int64_t t, std::size_t kv_head) const;

  const Problem& problem_;
  const Backward& io_;
  std::size_t first_piece_, kv_heads_, columns_;
  std::vector<Cut> cuts_;
  std::vector<std::size_t> last_;  // last cut of each piece
  Scratch<double> sums_;           // [cuts][kv_heads][columns]
};

}  // namespace fovea::scan
