#include <algorithm>
#include <cmath>

#include "fovea/optim.h"
#include "fovea/zones.h"
#include "optim/pieces.h"
#include "optim/update_cpu.h"

namespace fovea {

double clip_norm(Context& context, std::span<const Parameter> parameters, double limit) {
  const ZoneTimer timer(context.zones(), Zone::optimizer);
  const std::vector<Piece> pieces = cut_into_pieces(parameters);
  std::vector<double> sums(pieces.size());
  for_pieces(context, parameters, pieces, [&]<class T>(std::size_t index, const Piece& piece) {
    const T* grad = parameters[piece.parameter].var.grad().data<T>();
    sums[index] = cpu::sum_of_squares(grad + piece.begin, piece.end - piece.begin);
  });
  double total = 0.0;
  for (const double sum : sums) total += sum;
  const double norm = std::sqrt(total);
  if (limit <= 0.0 || !(norm > limit) || !std::isfinite(norm)) return norm;
  for_pieces(context, parameters, pieces, [&]<class T>(std::size_t, const Piece& piece) {
    T* grad = parameters[piece.parameter].var.grad().data<T>();
    const auto factor = static_cast<T>(limit / norm);
    for (std::int64_t i = piece.begin; i < piece.end; ++i) grad[i] *= factor;
  });
  return norm;
}

void clip_value(Context& context, std::span<const Parameter> parameters, double limit) {
  if (limit <= 0.0) return;
  const ZoneTimer timer(context.zones(), Zone::optimizer);
  for_pieces(context, parameters, cut_into_pieces(parameters), [&]<class T>(std::size_t, const Piece& piece) {
    T* grad = parameters[piece.parameter].var.grad().data<T>();
    const auto most = static_cast<T>(limit);
    for (std::int64_t i = piece.begin; i < piece.end; ++i) grad[i] = std::clamp(grad[i], -most, most);
  });
}

}  // namespace fovea
