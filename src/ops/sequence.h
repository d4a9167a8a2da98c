#pragma once

#include <limits>
#include <vector>

#include "fovea/ops.h"

// Operations along the positions of (b, n, heads, d), of which mechanisms are composed. They obey what ops.h says of
// its own. None crosses the ends of a sequence (`rows`), reads padding, or writes anything but 0 there unless it says
// so.
namespace fovea {

// Whether sequences fill (b, n, ...), so that there is no padding.
inline bool covers(const std::vector<Sequences::Rows>& rows, const Shape& shape) {
  std::int64_t covered = 0;
  for (const Sequences::Rows& r : rows) covered += r.count;
  return covered == shape[0] * shape[1];
}

// Row i meets the rows i + offset of its sequence, one for each offset.
struct Diagonals {
  std::vector<std::int64_t> offsets;
  Sequences rows = {};
  bool ring = false;  // the ends of a sequence are joined: i + offset is counted modulo its length
};

struct DiagonalScoreOptions {
  double scale = 1.0;
  double outside = -std::numeric_limits<double>::infinity();  // where i + offset is not in the sequence; all of padding
};
// scale q_i . k_(i + offset): q (b, n, h, d), k (b, n, kv_h, d) -> (b, n, h, offsets). Query heads share key heads in
// groups of h / kv_h.
Var diagonal_scores(Tape& tape, const Var& q, const Var& k, const Diagonals& along,
                    const DiagonalScoreOptions& scores = {});
// sum over c of weights_ic v_(i + offset_c): weights (b, n, h, offsets), v (b, n, kv_h, d) -> (b, n, h, d). Weights of
// rows outside the sequence are not read.
Var mix_diagonals(Tape& tape, const Var& weights, const Var& v, const Diagonals& along);

// x (b, n, ...) with `value` in the rows that belong to no sequence.
Var fill_padding(Tape& tape, const Var& x, const Sequences& rows, double value = 0.0);

// y_i = sum of x_j, j <= i in the sequence of i: x (b, n, ...).
Var cumsum(Tape& tape, const Var& x, const Sequences& rows = {});

// Means over nearly equal segments of each sequence, the longer segments first: (b, n, heads, d) -> (sequences,
// segments, heads, d). A sequence of fewer rows has a segment for each of them, and the rest of its means is padding.
struct SegmentMeans {
  Var means;
  Sequences rows;  // of the means
};
SegmentMeans segment_mean(Tape& tape, const Var& x, std::int64_t segments, const Sequences& rows = {});

// Rows picked for each head: x (b, n, heads, d), index i32 (b, m, heads) of rows of the item -> (b, m, heads, d). An
// index of -1 gives a row of zeros. A row may be picked often; its gradients add up in the order of the picks.
Var take_rows(Tape& tape, const Var& x, const Index& index);
// base (b, n, heads, d) with the rows at index i32 (b, m, heads) replaced by those of values (b, m, heads, d): the
// inverse of take_rows. Nothing is put at -1; a row named twice is an error.
Var put_rows(Tape& tape, const Var& base, const Index& index, const Var& values);

// The rows of the `count` largest scores (b, n, heads) of each sequence and head, in the order of their positions; of
// equal scores the earlier row wins, and NaN comes last. i32 (b, count, heads); packed: (1, sequences count, heads). -1
// where a sequence is shorter.
Tensor top_indices(const Context& context, const Tensor& scores, std::int64_t count, const Sequences& rows = {});
// The rows of each sequence and head in ascending order of keys i64 (b, n, heads), equal keys by position: i32, the
// same shape. Padding stays in its place.
Tensor argsort(const Context& context, const Tensor& keys, const Sequences& rows = {});

// y_i = sum over t of w_t x_(i + t - left), each channel by itself: x (b, n, heads, d), w (heads, taps) or (heads, d,
// taps). left is taps - 1 for causal (the last tap meets row i), else taps / 2.
struct DepthwiseConv {
  bool causal = false;
  Sequences rows = {};
};
Var depthwise_conv(Tape& tape, const Var& x, const Var& w, const DepthwiseConv& options = {});

}  // namespace fovea
