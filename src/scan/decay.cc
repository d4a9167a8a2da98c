#include "scan/decay.h"

#include <cmath>

#include "scan/cpu/rows.h"

namespace fovea::scan {

template <class R>
std::vector<R> decay_over(const Problem& problem, const In& log_decay, const Cut& cut, std::size_t kv_head) {
  const auto channels = static_cast<std::size_t>(problem.d_k);
  if (problem.decay == Decay::none) return std::vector<R>(channels, R{1});
  if (problem.decay == Decay::head) {
    const double sum = static_cast<double>(cut.end - cut.begin) * problem.log_decay[kv_head];
    return std::vector<R>(channels, static_cast<R>(std::exp(sum)));
  }
  const auto columns = static_cast<std::size_t>(decay_columns(problem));
  const Piece& piece = problem.pieces[cut.piece];
  const cpu::Place first = {piece.batch, piece.k0 + cut.begin, static_cast<std::int64_t>(kv_head)};
  const R* g = static_cast<const R*>(cpu::rows_at(dtype_of<R>, log_decay, first, columns).data);
  std::vector<double> sums(columns, 0.0);
  for (std::int64_t t = cut.begin; t < cut.end; ++t, g += log_decay.row)
    for (std::size_t a = 0; a < columns; ++a) sums[a] += g[a];
  std::vector<R> out(channels);
  for (std::size_t a = 0; a < channels; ++a) out[a] = static_cast<R>(std::exp(sums[columns == 1 ? 0 : a]));
  return out;
}

template <class R>
DecayGradient<R>::DecayGradient(const Context& context, const Problem& problem, const Backward& io, const Wave& wave)
    : problem_(problem),
      io_(io),
      first_piece_(wave.first),
      columns_(static_cast<std::size_t>(decay_columns(problem))),
      running_(context, (wave.last - wave.first) * static_cast<std::size_t>(problem.kv_heads) * columns_) {}

template <class R>
double* DecayGradient<R>::running(std::size_t piece, std::size_t kv_head) const {
  const std::size_t head = (piece - first_piece_) * static_cast<std::size_t>(problem_.kv_heads) + kv_head;
  return running_.data() + head * columns_;
}

template <class R>
void DecayGradient<R>::end(const StateLayout<R>& layout, std::size_t piece, std::size_t kv_head, const R* state) {
  double* sums = running(piece, kv_head);
  std::fill_n(sums, columns_, 0.0);
  if (io_.d_final_state == nullptr) return;
  const R* gradient =
      static_cast<const R*>(io_.d_final_state) + (piece * layout.kv_heads + kv_head) * layout.d_k * layout.width;
  for (std::size_t a = 0; a < layout.d_k; ++a)
    for (std::size_t w = 0; w < layout.width; ++w)
      sums[columns_ == 1 ? 0 : a] += static_cast<double>(state[w * layout.ld_k + a]) * gradient[a * layout.width + w];
}

template <class R>
void DecayGradient<R>::sum(std::size_t piece, std::size_t kv_head) {
  double* sums = running(piece, kv_head);
  const Piece& p = problem_.pieces[piece];
  const cpu::Place first = {p.batch, p.k0, static_cast<std::int64_t>(kv_head)};
  R* rows = static_cast<R*>(cpu::rows_at(dtype_of<R>, io_.d_log_decay, first, columns_).data);
  for (std::int64_t t = p.nk - 1; t >= 0; --t) {
    R* row = rows + t * io_.d_log_decay.row;
    for (std::size_t a = 0; a < columns_; ++a) row[a] = static_cast<R>(sums[a] += row[a]);
  }
}

template std::vector<float> decay_over(const Problem&, const In&, const Cut&, std::size_t);
template std::vector<double> decay_over(const Problem&, const In&, const Cut&, std::size_t);
template class DecayGradient<float>;
template class DecayGradient<double>;

}  // namespace fovea::scan
