#pragma once

#include <functional>
#include <vector>

#include "mechanisms/kind.h"

// Sequences cut into segments that run side by side: each becomes an item of the batch, its queries against the keys
// that some table lists for it.
namespace fovea {

// Rows of a sequence for each segment, `width` places each: -1 where a segment has fewer.
struct SegmentTable {
  std::int64_t width = 0;
  std::vector<std::vector<std::int32_t>> rows;
};

// The segments [s length, (s + 1) length) of n_k tokens that hold any of the last n_q positions.
class Segments {
 public:
  struct Span {
    std::int64_t begin, end;    // tokens of the segment
    std::int64_t query, count;  // its first query row, and how many there are
  };

  Segments(std::int64_t n_q, std::int64_t n_k, std::int64_t length);

  const std::vector<Span>& spans() const { return spans_; }
  // The query rows of every segment.
  SegmentTable queries() const;
  // For every query row its place in the stacked queries; -1 for those before the first token.
  SegmentTable places() const;
  std::vector<std::int32_t> query_counts() const;

 private:
  std::int64_t n_q_, length_;
  std::vector<Span> spans_;
};

// x (b, n, heads, d) -> (b segments, width, heads, d): the listed rows, the same for every item and head; 0 at -1.
Var stack_rows(Tape& tape, const Var& x, const SegmentTable& table);

// x without its gradient.
inline Var constant(const Var& x) { return Var(x.value()); }

// Softmax of stacked q (b segments, width, heads, d) over stacked k and v, of which segment s has key_counts[s] rows;
// the rows come back to their places: (b, n_q, heads, d_v). Queries stand on the last keys of their segment.
struct Stacked {
  Var q, k, v;
  std::vector<std::int32_t> key_counts;
};
Var attend_segments(const Call& call, const Segments& segments, const Stacked& stacked, double scale);

// What mechanisms have in common whose segments read memories of those before them, whose flag "stop" keeps gradients
// out of the memories.
inline constexpr Features kSegmented{Feature::scale, Feature::causal,  Feature::bidirectional,
                                     Feature::cross, Feature::padding, Feature::packed,
                                     Feature::step,  Feature::grouped, Feature::strict};
inline bool stops_at_memory(const Mechanism& mechanism) { return mechanism.flag("stop"); }

}  // namespace fovea
