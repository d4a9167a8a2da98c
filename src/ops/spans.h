#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <vector>

#include "fovea/error.h"
#include "fovea/sequences.h"

namespace fovea {

// Where the sequence of a row begins and ends, as rows of its batch item. Empty for padding.
struct Span {
  std::int32_t begin = 0, end = 0;

  bool holds(std::int64_t row) const { return row >= begin && row < end; }
};

// One for each row of (batch, n), in order: a loop over rows then needs no case for padded or packed batches.
inline std::vector<Span> spans_of(const Sequences& rows, std::int64_t batch, std::int64_t n) {
  if (n > std::numeric_limits<std::int32_t>::max()) fail(ErrorCode::shape, "more than 2^31 rows in a sequence", "rows");
  std::vector<Span> spans(static_cast<std::size_t>(batch * n));
  for (const auto& [item, begin, count] : rows.rows(batch, n, "rows")) {
    const Span span{static_cast<std::int32_t>(begin), static_cast<std::int32_t>(begin + count)};
    std::fill_n(spans.begin() + item * n + begin, count, span);
  }
  return spans;
}

using RowList = std::vector<Sequences::Rows>;

// Row ranges cut into stretches of bounded length, for sums along them: stretches run in parallel, those of one range
// are then joined in order. The cuts depend on the ranges alone.
struct Stretches {
  static constexpr std::int64_t kLongest = 256;

  struct Stretch {
    std::int64_t begin, end;  // rows of (batch n)
  };
  Stretches(const RowList& ranges, std::int64_t n) {
    for (const auto& [item, begin, count] : ranges) {
      for (std::int64_t i = 0; i < count; i += kLongest)
        list.push_back({item * n + begin + i, item * n + begin + std::min(count, i + kLongest)});
      first.push_back(static_cast<std::int64_t>(list.size()));
    }
  }

  std::vector<Stretch> list;
  std::vector<std::int64_t> first{0};  // stretch of each range; one more at the end
};

}  // namespace fovea
