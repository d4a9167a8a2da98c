#pragma once

#include "dist/group.h"
#include "fovea/ops.h"

// Tables of tokens of which each rank has some: rank r tokens [part_begin(all, ranks, r), ...). Ids, targets and
// results are those of all tokens, the same on every rank; gradients follow the rule of rows.h.
namespace fovea::divided {

struct Vocabulary {
  dist::Group ranks;
  std::int64_t all = 0;  // tokens

  std::int64_t begin() const { return dist::part_begin(all, ranks.size(), ranks.rank()); }
  std::int64_t end() const { return dist::part_begin(all, ranks.size(), ranks.rank() + 1); }
};

// embedding() of a table of which this rank has its tokens' rows, ids i32 (b, n): every rank looks up its own, and they
// are added up. Ids have been checked.
Var embedding(Tape& tape, const Var& table, const Index& ids, const Vocabulary& tokens);

// linear_class_loss() where this rank has its tokens' columns of the weight: five numbers of each row travel. The tape
// of each rank is given the whole gradient of the loss.
ClassLoss linear_class_loss(Tape& tape, const Var& x, const Var& weight, const Var& bias, const Tensor& targets,
                            CrossEntropy options, const Vocabulary& tokens);

// (..., this rank's tokens) -> (..., all tokens), on every rank.
Var join_tokens(Tape& tape, const Var& logits, const Vocabulary& tokens);

}  // namespace fovea::divided
