#pragma once

#include <algorithm>
#include <vector>

#include "ops/sequence.h"
#include "ops/spans.h"
#include "tensor/cuda/loops.cuh"

namespace fovea::device {

// A sequence that has rows: the first of (b n), how many, how many stand before it, and its number among all.
struct ListedSequence {
  std::int64_t first, count, before, number;
};

// The rows of all sequences, one after the other: places.
class ListedRows {
 public:
  // shape: (b, n, ...)
  ListedRows(const Context& context, const RowList& sequences, const Shape& shape)
      : list_(list_of(sequences, shape)), uploaded_(upload(context, list_)), covers_(covers(sequences, shape)) {}

  std::int64_t rows() const { return list_.empty() ? 0 : list_.back().before + list_.back().count; }
  std::int64_t longest() const {
    std::int64_t most = 0;
    for (const ListedSequence& s : list_) most = std::max(most, s.count);
    return most;
  }

  struct View {
    const ListedSequence* list;
    std::int64_t count;
    bool covers;  // places are the rows of (b n)

    // The sequence of a place.
    __device__ const ListedSequence& sequence(std::int64_t place) const {
      std::int64_t low = 0, high = count;  // the last one that begins at or before the place
      while (high - low > 1) {
        const std::int64_t middle = (low + high) / 2;
        if (list[middle].before <= place)
          low = middle;
        else
          high = middle;
      }
      return list[low];
    }
    // The row of (b n) at a place.
    __device__ std::int64_t row(std::int64_t place) const {
      if (covers) return place;
      const ListedSequence& at = sequence(place);
      return at.first + place - at.before;
    }
  };
  View view() const { return {uploaded_.data(), uploaded_.size(), covers_}; }

 private:
  static std::vector<ListedSequence> list_of(const RowList& sequences, const Shape& shape) {
    std::vector<ListedSequence> list;
    std::int64_t before = 0;
    for (std::size_t s = 0; s < sequences.size(); ++s) {
      const auto& [batch, begin, count] = sequences[s];
      if (count > 0) list.push_back({batch * shape.dim(1) + begin, count, before, static_cast<std::int64_t>(s)});
      before += count;
    }
    return list;
  }

  std::vector<ListedSequence> list_;
  Uploaded<ListedSequence> uploaded_;
  bool covers_;
};

}  // namespace fovea::device
