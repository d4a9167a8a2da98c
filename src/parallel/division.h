#pragma once

#include <vector>

#include "dist/group.h"
#include "fovea/sequences.h"
#include "fovea/tensor.h"

namespace fovea::divided {

// How rows lie where one rank has all of them: (batch, n, ...), divided into sequences.
struct WholeRows {
  WholeRows(std::int64_t items, std::int64_t count, Sequences sequences)
      : batch(items), n(count), rows(std::move(sequences)) {}

  std::int64_t batch, n;
  Sequences rows;
};

// Sequences whose rows are divided among the ranks of a group: rank r has consecutive rows of each, and holds those of
// all sequences one after another, (1, rows, ...). Parts begin at multiples of `tile` rows and differ by one tile at
// most; of short sequences some are empty.
class Division {
 public:
  Division(dist::Group ranks, WholeRows whole, std::int64_t tile = 1);
  Division(dist::Group ranks, const std::vector<std::int64_t>& lengths, std::int64_t tile = 1);  // packed

  const dist::Group& ranks() const { return ranks_; }
  std::size_t size() const { return sequences_.size(); }
  std::int64_t length(std::size_t s) const { return sequences_[s].count; }
  std::int64_t longest() const;
  // Of the rows of sequence s, those of a rank, as positions in the sequence.
  std::int64_t begin(std::size_t s, int rank) const;
  std::int64_t end(std::size_t s, int rank) const { return begin(s, rank + 1); }
  std::int64_t count(std::size_t s, int rank) const { return end(s, rank) - begin(s, rank); }
  // Where they begin among the rows that this rank holds.
  std::int64_t row(std::size_t s) const { return rows_[s]; }
  std::int64_t rows() const { return rows_.back(); }               // that this rank holds
  const std::vector<std::int64_t>& held() const { return held_; }  // that each rank holds
  // The rows of all: how they lie where they are whole, and where each sequence does.
  const WholeRows& whole() const { return whole_; }
  const Sequences::Rows& whole_rows(std::size_t s) const { return sequences_[s]; }
  std::int64_t whole_row(std::size_t s) const { return sequences_[s].batch * whole_.n + sequences_[s].begin; }

  Sequences sequences() const;                     // of the rows here, packed
  Tensor positions(const Context& context) const;  // i32 (1, rows): within the whole sequences
  // This rank's rows of (batch, n, ...), and back: what belongs to no sequence is 0.
  Tensor cut(const Context& context, const Tensor& whole) const;
  Tensor join(const Context& context, const Tensor& part) const;
  // The adjoints: this rank's rows where they lie in the whole, 0 elsewhere; of wholes that every rank has, the sum of
  // this rank's rows over all ranks (f32 or f64).
  Tensor spread(const Context& context, const Tensor& part) const;
  Tensor sum_cut(const Context& context, const Tensor& whole) const;

 private:
  struct Rows {
    std::int64_t begin, end;
  };
  // use(rows among those of the rank, rows of the whole (batch n)) for what a rank has of each sequence.
  template <class Use>
  void each_part(int rank, const Use& use) const;
  Tensor zeros_like_whole(const Context& context, const Tensor& part) const;

  dist::Group ranks_;
  WholeRows whole_;
  std::vector<Sequences::Rows> sequences_;
  std::vector<std::int64_t> rows_, held_;
  std::int64_t tile_;
};

}  // namespace fovea::divided
