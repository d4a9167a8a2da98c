#pragma once

#include "fovea/model.h"
#include "nn/layout.h"

// What layers do with rows and weights of which other ranks may have some: the one place that looks whether they do.
namespace fovea::nn {

struct Qkv {
  Var q, k, v;             // (b, n, heads, d_k), (b, n, kv_heads, d_k), (b, n, kv_heads, d_v)
  dist::Group ranks = {};  // who has other heads of these
};

// For what is made of all rows at once: everybody's, how they lie then, and this rank's of what was made of them.
Var whole(Tape& tape, const Var& x, const Layout& layout);
const Sequences& whole_rows(const Layout& layout);
Var own(Tape& tape, const Var& x, const Layout& layout);
Tensor own_targets(const Context& context, const Tensor& targets, const Layout& layout);  // one for each row
// What every rank has computed from whole rows, when it enters the loss.
Var alike(Tape& tape, const Var& x, const Layout& layout);

// Columns of rows of which other ranks have the rest.
struct ColumnShare {
  dist::Group ranks;
  std::int64_t all = 0;  // columns
};

// By the elements of the whole.
Var dropout(Tape& tape, const Var& x, double p, const Layout& layout, const ColumnShare& columns = {});
Var glu(Tape& tape, const Var& x, Activation activation, double dropout_p, const Layout& layout,
        const ColumnShare& columns);

// act(x W + b), where ranks have parts of the inputs: what they make of them is added up, in a wide type.
struct LinearShare {
  Var x, weight, bias;
  Activation activation;
};
Var linear_of_shares(Tape& tape, const LinearShare& in, const dist::Group& ranks);

// attention() of these rows, whose places and positions the layout has.
Var attend(Tape& tape, const Qkv& in, const Mechanism& mechanism, AttentionOptions options, const Layout& layout);
// Of these rows to those of a source.
Var attend(Tape& tape, const Qkv& in, const Mechanism& mechanism, AttentionOptions options, const Layout& layout,
           const Layout& source);

// One row of each sequence, or their mean: x (b, n, width) -> (sequences, width), on every rank.
Var pool(Tape& tape, const Var& x, const Layout& layout, Pooling pooling);

}  // namespace fovea::nn
