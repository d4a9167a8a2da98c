#pragma once

#include <algorithm>
#include <span>
#include <vector>

#include "core/parallel.h"
#include "fovea/model.h"

namespace fovea {

inline void check_updatable(const Parameter& p) {
  const Tensor& value = p.var.value();
  if ((value.dtype() != DType::f32 && value.dtype() != DType::f64) || !value.is_contiguous())
    fail(ErrorCode::usage, "parameters must be contiguous f32 or f64", p.name);
}

// Elements [begin, end) of one parameter.
struct Piece {
  std::size_t parameter;
  std::int64_t begin, end;
};

// Cuts the parameters that `wanted` says yes to into pieces of about equal work. The cut does not depend on the number
// of threads, so sums over pieces in order do not either.
template <class Wanted>
std::vector<Piece> cut_parameters(std::span<const Parameter> parameters, Wanted&& wanted) {
  constexpr std::int64_t kPiece = 1 << 14;
  std::vector<Piece> pieces;
  for (std::size_t p = 0; p < parameters.size(); ++p) {
    if (!wanted(parameters[p])) continue;
    const std::int64_t count = parameters[p].var.value().numel();
    for (std::int64_t i = 0; i < count; i += kPiece) pieces.push_back({p, i, std::min(count, i + kPiece)});
  }
  return pieces;
}

// Those that have a gradient.
inline std::vector<Piece> cut_into_pieces(std::span<const Parameter> parameters) {
  return cut_parameters(parameters, [](const Parameter& p) { return p.trained() && p.var.grad().defined(); });
}

inline std::vector<Piece> cut_all(std::span<const Parameter> parameters) {
  return cut_parameters(parameters, [](const Parameter&) { return true; });
}

// Runs body.template operator()<T>(index, piece) over the pieces in parallel, T being the parameter's C++ type.
template <class Body>
void for_pieces(const Context& context, std::span<const Parameter> parameters, const std::vector<Piece>& pieces,
                Body&& body) {
  parallel_for(context, static_cast<std::int64_t>(pieces.size()), [&](std::int64_t index) {
    const Piece& piece = pieces[static_cast<std::size_t>(index)];
    const bool wide = parameters[piece.parameter].var.dtype() == DType::f64;
    if (wide)
      body.template operator()<double>(static_cast<std::size_t>(index), piece);
    else
      body.template operator()<float>(static_cast<std::size_t>(index), piece);
  });
}

}  // namespace fovea
