#include "parallel/division.h"

#include <algorithm>

namespace fovea::parallel {

Division::Division(dist::Group ranks, std::vector<std::int64_t> lengths, std::int64_t tile)
    : ranks_(std::move(ranks)), lengths_(std::move(lengths)), rows_{0}, whole_rows_{0}, tile_(tile) {
  if (tile < 1) fail(ErrorCode::usage, "parts of sequences in tiles of " + std::to_string(tile) + " rows", "tile");
  for (std::size_t s = 0; s < lengths_.size(); ++s) {
    if (lengths_[s] < 0) fail(ErrorCode::usage, "a sequence of negative length", "lengths");
    rows_.push_back(rows_.back() + count(s, ranks_.rank()));
    whole_rows_.push_back(whole_rows_.back() + lengths_[s]);
  }
}

std::int64_t Division::begin(std::size_t s, int rank) const {
  const std::int64_t tiles = (lengths_[s] + tile_ - 1) / tile_;
  return std::min(lengths_[s], tile_ * dist::part_begin(tiles, ranks_.size(), rank));
}

Sequences Division::sequences() const {
  Sequences out;
  for (const std::int64_t row : rows_) out.cu_seqlens.push_back(static_cast<std::int32_t>(row));
  return out;
}

Tensor Division::positions(const Context& context) const {
  std::vector<std::int32_t> positions;
  for (std::size_t s = 0; s < size(); ++s)
    for (std::int64_t i = begin(s, ranks_.rank()); i < end(s, ranks_.rank()); ++i)
      positions.push_back(static_cast<std::int32_t>(i));
  return Tensor::from<std::int32_t>(context, {1, rows()}, positions);
}

Tensor Division::cut(const Context& context, const Tensor& whole) const {
  const Tensor part = Tensor::empty(context, whole.shape().with(1, rows()), whole.dtype());
  for (std::size_t s = 0; s < size(); ++s) {
    const std::int64_t from = whole_row(s) + begin(s, ranks_.rank()), n = count(s, ranks_.rank());
    if (n > 0) part.slice(1, row(s), row(s) + n).copy_from(whole.slice(1, from, from + n));
  }
  return part;
}

// Ranks' parts arrive one after another; each has rows of every sequence.
Tensor Division::join(const Context& context, const Tensor& part) const {
  std::vector<std::int64_t> held;
  for (int r = 0; r < ranks_.size(); ++r) {
    held.push_back(0);
    for (std::size_t s = 0; s < size(); ++s) held.back() += count(s, r);
  }
  const Tensor parts = ranks_.all_gather(context, part.select(0, 0), held);
  const Tensor whole = Tensor::empty(context, part.shape().with(1, whole_rows_.back()), part.dtype());
  std::int64_t from = 0;
  for (int r = 0; r < ranks_.size(); ++r)
    for (std::size_t s = 0; s < size(); ++s) {
      const std::int64_t n = count(s, r), to = whole_row(s) + begin(s, r);
      if (n > 0) whole.select(0, 0).slice(0, to, to + n).copy_from(parts.slice(0, from, from + n));
      from += n;
    }
  return whole;
}

}  // namespace fovea::parallel
