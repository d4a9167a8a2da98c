#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "scan/contract.h"

// Where the rows of a task stand in the caller's arrays.
namespace fovea::scan::cpu {

struct Place {
  std::int64_t batch, row, head;
};

// Rows of one head from some place on.
template <class Pointer>
struct Rows {
  DType dtype;
  Pointer data;
  std::int64_t stride;  // elements
  std::size_t dim;
};

template <class Pointer>
Rows<Pointer> rows_at(DType dtype, const Array<Pointer>& array, const Place& at, std::size_t dim) {
  using Byte = std::conditional_t<std::is_same_v<Pointer, void*>, char, const char>;
  const std::int64_t offset = at.batch * array.batch + at.row * array.row + at.head * array.head;
  return {dtype, static_cast<Byte*>(array.data) + offset * static_cast<std::int64_t>(size_of(dtype)), array.row, dim};
}

// Calls f.template operator()<T>() with the element type; kernels for double know double alone.
template <class R, class F>
void visit_element(DType dtype, F&& f) {
  if constexpr (std::is_same_v<R, double>) {
    f.template operator()<double>();
  } else {
    switch (dtype) {
      case DType::bf16: return f.template operator()<bf16>();
      case DType::f16: return f.template operator()<f16>();
      default: return f.template operator()<float>();
    }
  }
}

// The statistic of a row; one column for all heads with a norm.
template <class R, class Pointer>
R* statistic_at(const Problem& problem, const Array<Pointer>& array, const Place& at) {
  if (array.data == nullptr || statistic_columns(problem) == 0) return nullptr;
  return static_cast<R*>(array.data) + at.batch * array.batch + at.row * array.row + (problem.rms_norm ? 0 : at.head);
}

// The denominator as it is used and saved.
template <class R>
R denominator(const Problem& problem, R sum) {
  const R eps = static_cast<R>(problem.denominator_eps);
  if (problem.denominator == Denominator::add) return sum + eps;
  return sum < eps ? eps : sum;
}

// The norm's factor of a row, from the sum of its squares over all heads.
template <class R>
R norm_factor(const Problem& problem, R squares) {
  const R mean = squares / static_cast<R>(problem.heads * problem.d_v) + static_cast<R>(problem.norm_eps);
  return mean == 0 ? R{0} : 1 / std::sqrt(mean);
}

template <class R>
void store_statistic(const Problem& problem, const Out& array, const Place& at, const R* values, std::size_t rows) {
  R* statistic = statistic_at<R>(problem, array, at);
  for (std::size_t i = 0; statistic != nullptr && i < rows; ++i)
    statistic[static_cast<std::int64_t>(i) * array.row] = values[i];
}

// What the gradient of y is made of; see load_gradient.
template <class R>
struct GradientRows {
  Rows<const void*> d_o, o, rest;  // rest: no data where o is all there is
  const R* statistic;              // null: y is o
  std::int64_t statistic_stride;
  const R* dots;  // d_o . o over all heads; null without norm
  R per_column;   // 1 / (heads d_v)
  bool clamp;     // a denominator that was clamped has no gradient ...
  R floor;        // ... which it was if it is not above this
};

template <class R>
GradientRows<R> gradient_rows(const Problem& problem, const Backward& io, const Place& at, const R* dots) {
  const auto d_v = static_cast<std::size_t>(problem.d_v);
  const DType dtype = problem.output_type();
  return {.d_o = rows_at(dtype, io.d_o, at, d_v),
          .o = rows_at(dtype, io.o, at, d_v),
          .rest = io.rest.data == nullptr ? Rows<const void*>{} : rows_at(dtype, io.rest, at, d_v),
          .statistic = statistic_at<const R>(problem, io.statistic, at),
          .statistic_stride = io.statistic.row,
          .dots = dots,
          .per_column = R{1} / static_cast<R>(problem.heads * problem.d_v),
          .clamp = problem.denominator == Denominator::clamp,
          .floor = static_cast<R>(problem.denominator_eps)};
}

// Rows [begin, end) in blocks of `chunk`.
struct Blocks {
  std::int64_t begin, end, chunk;

  std::int64_t count() const { return (end - begin + chunk - 1) / chunk; }
  std::int64_t row(std::int64_t i) const { return begin + i * chunk; }
  std::size_t rows(std::int64_t i) const {
    const std::int64_t left = end - row(i);
    return static_cast<std::size_t>(left < chunk ? left : chunk);
  }
};

// A run of consecutive positions of a causal piece, all of them with a query or none.
struct Chunk {
  std::int64_t key, query;  // first rows, counted in the piece
  std::size_t rows;
  bool has_queries;
};

// Positions [begin, end) of a piece in chunks. Query i stands at position i + nk - nq: positions before the first query
// only feed the state.
class Chunks {
 public:
  Chunks(const Piece& piece, std::int64_t begin, std::int64_t end, std::int64_t chunk)
      : shift_(piece.nk - piece.nq), begin_(begin), end_(end), chunk_(chunk) {
    split_ = shift_ < begin ? begin : (shift_ > end ? end : shift_);
    before_ = (split_ - begin_ + chunk_ - 1) / chunk_;
  }

  std::int64_t count() const { return before_ + (end_ - split_ + chunk_ - 1) / chunk_; }
  Chunk operator[](std::int64_t i) const {
    const bool has_queries = i >= before_;
    const std::int64_t key = has_queries ? split_ + (i - before_) * chunk_ : begin_ + i * chunk_;
    const std::int64_t limit = has_queries ? end_ : split_;
    const std::int64_t rows = key + chunk_ < limit ? chunk_ : limit - key;
    return {key, key - shift_, static_cast<std::size_t>(rows), has_queries};
  }

 private:
  std::int64_t shift_, begin_, end_, chunk_;
  std::int64_t split_, before_;  // where queries begin, chunks in front of it
};

}  // namespace fovea::scan::cpu
