#include "scan/cpu/decay.h"

#include <algorithm>
#include <cmath>

#include "scan/cpu/rows.h"

namespace fovea::scan {
namespace {

// The sum of rows (count, columns) that lie `stride` apart, a few at a time in their own type: its rounding is that of
// a few terms, and a factor exp(sum) of at most 1 forgives what a large sum loses.
template <class R>
std::vector<double> sum_rows(const R* rows, std::int64_t count, std::int64_t stride, std::int64_t columns) {
  std::vector<double> all(static_cast<std::size_t>(columns), 0.0);
  double* sums = all.data();
  constexpr std::int64_t kFew = 4;
  std::int64_t t = 0;
  for (; t + kFew <= count; t += kFew, rows += kFew * stride)
    for (std::int64_t a = 0; a < columns; ++a)
      sums[a] += (rows[a] + rows[a + stride]) + (rows[a + 2 * stride] + rows[a + 3 * stride]);
  for (; t < count; ++t, rows += stride)
    for (std::int64_t a = 0; a < columns; ++a) sums[a] += rows[a];
  return all;
}

}  // namespace

template <class R>
void decay_over(const Problem& problem, const In& log_decay, const Cut& cut, std::size_t kv_head, R* factors) {
  const auto channels = static_cast<std::size_t>(problem.d_k);
  const std::int64_t columns = decay_columns(problem);
  if (columns == 0) {
    const double rate = problem.decay == Decay::none ? 0.0 : problem.log_decay[kv_head];
    std::fill_n(factors, channels, static_cast<R>(std::exp(static_cast<double>(cut.end - cut.begin) * rate)));
    return;
  }
  const Piece& at = problem.pieces[cut.piece];
  const cpu::Place first = {at.batch, at.k0 + cut.begin, static_cast<std::int64_t>(kv_head)};
  const auto rows = cpu::rows_at(dtype_of<R>, log_decay, first, static_cast<std::size_t>(columns));
  const auto sums = sum_rows(static_cast<const R*>(rows.data), cut.end - cut.begin, log_decay.row, columns);
  for (std::size_t a = 0; a < channels; ++a) factors[a] = static_cast<R>(std::exp(sums[a % sums.size()]));
}

template <class R>
void write_total_decay(const Context& context, const Problem& problem, const In& log_decay, R* to) {
  const auto kv_heads = static_cast<std::size_t>(problem.kv_heads);
  parallel_for(context, std::ssize(problem.pieces) * problem.kv_heads, [&](std::int64_t i) {
    const std::size_t piece = static_cast<std::size_t>(i) / kv_heads;
    decay_over(problem, log_decay, {piece, 0, problem.pieces[piece].nk}, static_cast<std::size_t>(i) % kv_heads,
               to + i * problem.d_k);
  });
}

template <class R>
SegmentDecays<R>::SegmentDecays(const Context& context, const Problem& problem, const In& log_decay, const Wave& wave)
    : problem_(problem),
      log_decay_(log_decay),
      cuts_(cut_for_scan(problem, wave.first, wave.last)),
      kv_heads_(static_cast<std::size_t>(problem.kv_heads)),
      channels_(static_cast<std::size_t>(problem.d_k)),
      factors_(context, cuts_.size() * kv_heads_ * channels_) {}

template <class R>
void SegmentDecays<R>::sum_up(std::size_t cut) const {
  for (std::size_t g = 0; g < kv_heads_; ++g)
    decay_over(problem_, log_decay_, cuts_[cut], g, factors_.data() + (cut * kv_heads_ + g) * channels_);
}

template <class R>
DecayGradient<R>::DecayGradient(const Context& context, const Problem& problem, const Backward& io, const Wave& wave)
    : problem_(problem),
      io_(io),
      first_piece_(wave.first),
      kv_heads_(static_cast<std::size_t>(problem.kv_heads)),
      columns_(io.d_log_decay.data == nullptr ? 0 : static_cast<std::size_t>(decay_columns(problem))),
      cuts_(cut_for_scan(problem, wave.first, wave.last)),
      last_(wave.last - wave.first),
      sums_(context, cuts_.size() * kv_heads_ * columns_) {
  for (std::size_t i = 0; i < cuts_.size(); ++i) last_[cuts_[i].piece - first_piece_] = i;
  std::fill_n(sums_.data(), cuts_.size() * kv_heads_ * columns_, 0.0);
}

template <class R>
void DecayGradient<R>::start(const StateLayout<R>& layout, std::size_t piece, std::size_t kv_head, const R* state) {
  if (io_.d_final_state == nullptr) return;
  double* end = sums(last_[piece - first_piece_]) + kv_head * columns_;
  const R* gradient =
      static_cast<const R*>(io_.d_final_state) + (piece * kv_heads_ + kv_head) * layout.d_k * layout.width;
  for (std::size_t a = 0; a < layout.d_k; ++a)
    for (std::size_t w = 0; w < layout.width; ++w)
      end[a % columns_] += static_cast<double>(state[w * layout.ld_k + a]) * gradient[a * layout.width + w];
}

template <class R>
R* DecayGradient<R>::row(std::size_t piece, std::int64_t t, std::size_t kv_head) const {
  const Piece& p = problem_.pieces[piece];
  const cpu::Place at = {p.batch, p.k0 + t, static_cast<std::int64_t>(kv_head)};
  return static_cast<R*>(cpu::rows_at(dtype_of<R>, io_.d_log_decay, at, columns_).data);
}

template <class R>
void DecayGradient<R>::join(std::size_t piece, std::size_t kv_head) const {
  for (std::size_t i = last_[piece - first_piece_]; cuts_[i].begin > 0; --i) {
    const R* behind = row(piece, cuts_[i].begin, kv_head);
    const Cut& cut = cuts_[i - 1];
    for (std::int64_t t = cut.begin; t < cut.end; ++t) {
      R* own = row(piece, t, kv_head);
      for (std::size_t a = 0; a < columns_; ++a) own[a] += behind[a];
    }
  }
}

template void write_total_decay(const Context&, const Problem&, const In&, float*);
template void write_total_decay(const Context&, const Problem&, const In&, double*);
template class SegmentDecays<float>;
template class SegmentDecays<double>;
template class DecayGradient<float>;
template class DecayGradient<double>;

}  // namespace fovea::scan
