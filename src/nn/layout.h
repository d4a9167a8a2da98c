#pragma once

#include <memory>
#include <vector>

#include "fovea/attention.h"
#include "fovea/data.h"
#include "parallel/division.h"

namespace fovea::nn {

// What one layer remembers of one sequence between the steps of generation.
struct LayerPast {
  DecodeState self;
  DecodeState cross;  // what cross-attention reads; made at the first step
};

// What a stack remembers of one sequence.
struct Past {
  std::vector<LayerPast> layers;
  std::int64_t length = 0;  // tokens seen
};

// How the rows of a (b, n, width) tensor divide into sequences, and where each row stands in its own.
struct Layout {
  Sequences rows;
  Tensor positions;          // i32 (b, n); 0 in padding
  std::int64_t longest = 0;  // positions are below it
  std::vector<Past*> pasts;  // empty, or one for each sequence: its rows follow on what it remembers (no gradients)
  std::shared_ptr<const divided::Division> division;  // null: no other rank has rows of these sequences
};

// Who shares the rows of each sequence.
struct RowSharers {
  dist::Group ranks;      // one: it has all of them
  std::int64_t tile = 1;  // rows that should stay together, where sequences are long enough
};

// The layout of this rank's rows; `whole` has all, and those of no other rank.
std::shared_ptr<const Layout> share_rows(const Context& context, const std::shared_ptr<const Layout>& whole,
                                         std::int64_t batch, std::int64_t n, const RowSharers& sharers);

// Every item of the batch is one sequence of n rows.
std::shared_ptr<const Layout> full_layout(const Context& context, std::int64_t batch, std::int64_t n);

// Counts the tokens that a step has added to each past.
void advance(const Input& tokens, const std::vector<Past*>& pasts);

// What cross-attention reads: the output of another stack.
struct Source {
  Var rows;  // (b, n, width)
  std::shared_ptr<const Layout> layout;

  bool defined() const { return rows.defined(); }
};

}  // namespace fovea::nn
