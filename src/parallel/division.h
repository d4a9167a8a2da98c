#pragma once

#include <vector>

#include "dist/group.h"
#include "fovea/sequences.h"
#include "fovea/tensor.h"

namespace fovea::parallel {

// Sequences whose rows are divided among the ranks of a group: rank r has consecutive rows of each, and holds those of
// all sequences one after another, (1, rows, ...). Parts begin at multiples of `tile` rows and differ by one tile at
// most; of short sequences some are empty.
class Division {
 public:
  Division(dist::Group ranks, std::vector<std::int64_t> lengths, std::int64_t tile = 1);

  const dist::Group& ranks() const { return ranks_; }
  std::size_t size() const { return lengths_.size(); }  // sequences
  std::int64_t length(std::size_t s) const { return lengths_[s]; }
  // Of the rows of sequence s, those of a rank, as positions in the sequence.
  std::int64_t begin(std::size_t s, int rank) const;
  std::int64_t end(std::size_t s, int rank) const { return begin(s, rank + 1); }
  std::int64_t count(std::size_t s, int rank) const { return end(s, rank) - begin(s, rank); }
  // Where they begin among the rows that this rank holds; and the sequence among the rows of all.
  std::int64_t row(std::size_t s) const { return rows_[s]; }
  std::int64_t whole_row(std::size_t s) const { return whole_rows_[s]; }
  std::int64_t rows() const { return rows_.back(); }  // that this rank holds

  Sequences sequences() const;                     // of them, packed
  Tensor positions(const Context& context) const;  // i32 (1, rows): within the whole sequences
  // This rank's rows of (1, all rows, ...), and back.
  Tensor cut(const Context& context, const Tensor& whole) const;
  Tensor join(const Context& context, const Tensor& part) const;

 private:
  dist::Group ranks_;
  std::vector<std::int64_t> lengths_, rows_, whole_rows_;
  std::int64_t tile_;
};

}  // namespace fovea::parallel
