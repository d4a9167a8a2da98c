#pragma once

#include <algorithm>
#include <vector>

#include "ops/spans.h"
#include "tensor/cuda/loops.cuh"

// Row ranges of (batch, n) on the card.
namespace fovea::device {

// Which range a row is in. The ranges are in the order of their rows, none of which is in two.
class RowOwners {
 public:
  RowOwners(const Context& context, const RowList& ranges, std::int64_t n) : list_(upload(context, ranges)), n_(n) {}

  struct View {
    const Sequences::Rows* list;
    std::int64_t count, n;

    __device__ std::int64_t first(std::int64_t range) const { return list[range].batch * n + list[range].begin; }
    // -1: none. `row` counts the rows of (batch n).
    __device__ std::int64_t operator()(std::int64_t row) const {
      std::int64_t low = 0, high = count;  // the last range that begins at or before the row
      while (low < high) {
        const std::int64_t middle = (low + high) / 2;
        if (first(middle) <= row)
          low = middle + 1;
        else
          high = middle;
      }
      return low > 0 && row < first(low - 1) + list[low - 1].count ? low - 1 : -1;
    }
  };
  View view() const { return {list_.data(), list_.size(), n_}; }

 private:
  Uploaded<Sequences::Rows> list_;
  std::int64_t n_;
};

// Ranges cut into pieces of at most kPiece rows, by the ranges alone: their sums are joined in order.
class RowPieces {
 public:
  static constexpr std::int64_t kPiece = 32;
  struct Rows {
    std::int64_t begin, end;  // rows of (batch n)
  };

  RowPieces(const Context& context, const std::vector<Rows>& ranges) : RowPieces(context, cut(ranges)) {}

  struct View {
    const Rows* list;
    const std::int64_t* first;  // piece of each range; one more at the end
    std::int64_t pieces, ranges;
  };
  View view() const { return {list_.data(), first_.data(), list_.size(), first_.size() - 1}; }

  // sums (pieces, width) of x (rows, width), in the wide type.
  template <class R>
  Tensor sums(const Context& context, const Tensor& x) const {
    const std::int64_t width = x.dim(1);
    const Tensor sums =
        Tensor::empty(context, {list_.size(), width}, sizeof(R) == 8 ? DType::f64 : DType::f32, Lifetime::scratch);
    const Elements<R> from = elements<R>(x);
    const View pieces = view();
    R* const to = pointer<R>(sums);
    each(context, list_.size() * width, [=] __device__(std::int64_t i) {
      const std::int64_t piece = i / width, c = i % width;
      R sum(0);
      for (std::int64_t row = pieces.list[piece].begin; row < pieces.list[piece].end; ++row)
        sum += from[row * width + c];
      to[i] = sum;
    });
    return sums;
  }

 private:
  struct Cut {
    std::vector<Rows> list;
    std::vector<std::int64_t> first{0};
  };
  static Cut cut(const std::vector<Rows>& ranges) {
    Cut cut;
    for (const auto& [begin, end] : ranges) {
      for (std::int64_t i = begin; i < end; i += kPiece) cut.list.push_back({i, std::min(end, i + kPiece)});
      cut.first.push_back(static_cast<std::int64_t>(cut.list.size()));
    }
    return cut;
  }
  RowPieces(const Context& context, const Cut& cut)
      : list_(upload(context, cut.list)), first_(upload(context, cut.first)) {}

  Uploaded<Rows> list_;
  Uploaded<std::int64_t> first_;
};

}  // namespace fovea::device
