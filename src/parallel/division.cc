#include "parallel/division.h"

#include <algorithm>

namespace fovea::divided {
namespace {

WholeRows packed(const std::vector<std::int64_t>& lengths) {
  WholeRows whole(1, 0, {.lengths = {}, .cu_seqlens = {0}});
  for (const std::int64_t n : lengths) {
    if (n < 0) fail(ErrorCode::usage, "a sequence of negative length", "lengths");
    whole.n += n;
    whole.rows.cu_seqlens.push_back(static_cast<std::int32_t>(whole.n));
  }
  return whole;
}

// (batch, n, ...) -> (batch n, ...)
Tensor flat(const Tensor& x) {
  std::vector<std::int64_t> dims{x.dim(0) * x.dim(1)};
  for (int i = 2; i < x.rank(); ++i) dims.push_back(x.dim(i));
  return x.reshape(Shape(std::span<const std::int64_t>(dims)));
}

}  // namespace

Division::Division(dist::Group ranks, const std::vector<std::int64_t>& lengths, std::int64_t tile)
    : Division(std::move(ranks), packed(lengths), tile) {}

Division::Division(dist::Group ranks, WholeRows whole, std::int64_t tile)
    : ranks_(std::move(ranks)),
      whole_(std::move(whole)),
      sequences_(whole_.rows.rows(whole_.batch, whole_.n, "rows")),
      rows_{0},
      tile_(tile) {
  if (tile < 1) fail(ErrorCode::usage, "parts of sequences in tiles of " + std::to_string(tile) + " rows", "tile");
  for (std::size_t s = 0; s < size(); ++s) rows_.push_back(rows_.back() + count(s, ranks_.rank()));
  for (int r = 0; r < ranks_.size(); ++r) {
    held_.push_back(0);
    for (std::size_t s = 0; s < size(); ++s) held_.back() += count(s, r);
  }
}

std::int64_t Division::longest() const {
  std::int64_t longest = 0;
  for (const Sequences::Rows& sequence : sequences_) longest = std::max(longest, sequence.count);
  return longest;
}

std::int64_t Division::begin(std::size_t s, int rank) const {
  const std::int64_t tiles = (length(s) + tile_ - 1) / tile_;
  return std::min(length(s), tile_ * dist::part_begin(tiles, ranks_.size(), rank));
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

template <class Use>
void Division::each_part(int rank, const Use& use) const {
  std::int64_t at = 0;
  for (std::size_t s = 0; s < size(); ++s) {
    const std::int64_t n = count(s, rank), to = whole_row(s) + begin(s, rank);
    if (n > 0) use(Rows{at, at + n}, Rows{to, to + n});
    at += n;
  }
}

Tensor Division::cut(const Context& context, const Tensor& whole) const {
  const Tensor part = Tensor::empty(context, whole.shape().with(0, 1).with(1, rows()), whole.dtype());
  const Tensor from = flat(whole.contiguous(context)), to = part.select(0, 0);
  each_part(ranks_.rank(), [&](const Rows& here, const Rows& there) {
    to.slice(0, here.begin, here.end).copy_from(from.slice(0, there.begin, there.end));
  });
  return part;
}

Tensor Division::spread(const Context& context, const Tensor& part) const {
  const Tensor whole = zeros_like_whole(context, part), to = flat(whole), from = part.select(0, 0);
  each_part(ranks_.rank(), [&](const Rows& here, const Rows& there) {
    to.slice(0, there.begin, there.end).copy_from(from.slice(0, here.begin, here.end));
  });
  return whole;
}

// Ranks' parts arrive one after another; each has rows of every sequence.
Tensor Division::join(const Context& context, const Tensor& part) const {
  const Tensor parts = ranks_.all_gather(context, part.select(0, 0), held_);
  const Tensor whole = zeros_like_whole(context, part), to = flat(whole);
  std::int64_t from = 0;
  for (int r = 0; r < ranks_.size(); ++r) {
    each_part(r, [&](const Rows& here, const Rows& there) {
      to.slice(0, there.begin, there.end).copy_from(parts.slice(0, from + here.begin, from + here.end));
    });
    from += held_[static_cast<std::size_t>(r)];
  }
  return whole;
}

Tensor Division::sum_cut(const Context& context, const Tensor& whole) const {
  const Tensor from = flat(whole.contiguous(context));
  std::int64_t all = 0;
  for (const std::int64_t held : held_) all += held;
  const Tensor parts = Tensor::empty(context, from.shape().with(0, all), whole.dtype());
  std::int64_t at = 0;
  for (int r = 0; r < ranks_.size(); ++r) {
    each_part(r, [&](const Rows& here, const Rows& there) {
      parts.slice(0, at + here.begin, at + here.end).copy_from(from.slice(0, there.begin, there.end));
    });
    at += held_[static_cast<std::size_t>(r)];
  }
  return ranks_.reduce_scatter(context, parts, held_).reshape(whole.shape().with(0, 1).with(1, rows()));
}

Tensor Division::zeros_like_whole(const Context& context, const Tensor& part) const {
  return Tensor::zeros(context, part.shape().with(0, whole_.batch).with(1, whole_.n), part.dtype());
}

}  // namespace fovea::divided
