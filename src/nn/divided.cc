#include "nn/divided.h"

#include "core/wide.h"
#include "ops/dropout_parts.h"
#include "parallel/attention.h"
#include "parallel/heads.h"
#include "parallel/rows.h"

namespace fovea::nn {
namespace {

bool has_others(const ColumnShare& columns) { return columns.ranks.size() > 1; }

// Of rows (b, n, width) of one rank's columns.
std::vector<DropoutPart> parts_of(const Var& x, const Layout& layout, const ColumnShare& columns) {
  const std::int64_t width = x.dim(2),
                     column = dist::part_begin(columns.all, columns.ranks.size(), columns.ranks.rank());
  const auto part = [&](std::int64_t at, std::int64_t rows, std::int64_t whole_row) {
    return DropoutPart{at * width, (at + rows) * width, whole_row * columns.all + column, width, columns.all};
  };
  if (!layout.division) return {part(0, x.dim(0) * x.dim(1), 0)};
  std::vector<DropoutPart> parts;
  const divided::Division& division = *layout.division;
  const int rank = division.ranks().rank();
  for (std::size_t s = 0; s < division.size(); ++s)
    if (const std::int64_t rows = division.count(s, rank); rows > 0)
      parts.push_back(part(division.row(s), rows, division.whole_row(s) + division.begin(s, rank)));
  return parts;
}

}  // namespace

Var whole(Tape& tape, const Var& x, const Layout& layout) {
  return layout.division ? divided::join(tape, x, *layout.division) : x;
}

const Sequences& whole_rows(const Layout& layout) {
  return layout.division ? layout.division->whole().rows : layout.rows;
}

Var own(Tape& tape, const Var& x, const Layout& layout) {
  return layout.division ? divided::cut(tape, x, *layout.division) : x;
}

Tensor own_targets(const Context& context, const Tensor& targets, const Layout& layout) {
  if (!layout.division) return targets;
  const divided::WholeRows& all = layout.division->whole();
  if (targets.numel() != all.batch * all.n)
    fail(ErrorCode::shape, "targets of shape " + targets.shape().text(), "targets", "one for each row");
  return layout.division->cut(context, targets.contiguous(context).reshape({all.batch, all.n}));
}

Var alike(Tape& tape, const Var& x, const Layout& layout) {
  return layout.division ? divided::alike(tape, x, layout.division->ranks()) : x;
}

Var dropout(Tape& tape, const Var& x, double p, const Layout& layout, const ColumnShare& columns) {
  if (has_others(columns)) return dropout_parts(tape, x, p, parts_of(x, layout, columns));
  return layout.division ? divided::dropout(tape, x, p, *layout.division) : fovea::dropout(tape, x, p);
}

Var glu(Tape& tape, const Var& x, Activation activation, double dropout_p, const Layout& layout,
        const ColumnShare& columns) {
  if (!layout.division && !has_others(columns)) return fovea::glu(tape, x, activation, dropout_p);
  return dropout(tape, fovea::glu(tape, x, activation), dropout_p, layout, columns);
}

Var linear_of_shares(Tape& tape, const LinearShare& in, const dist::Group& ranks) {
  if (ranks.size() == 1) return linear(tape, in.x, in.weight, in.bias, in.activation);
  const DType dtype = in.x.dtype();
  const Var own = linear(tape, in.x, in.weight);
  Var all = divided::sum(tape, cast(tape, own, wide_type(dtype)), ranks);
  if (in.bias.defined()) all = add(tape, all, in.bias);
  return activate(tape, cast(tape, all, dtype), in.activation);
}

Var attend(Tape& tape, const Qkv& in, const Mechanism& mechanism, AttentionOptions options, const Layout& layout) {
  if (!layout.division) {
    options.queries = layout.rows;
    if (options.rotary) options.positions = layout.positions;
  }
  return divided::attention_of_heads(tape, {in.q, in.k, in.v, in.ranks}, mechanism, options,
                                     [&](const divided::Heads& x, const Mechanism& m, const AttentionOptions& o) {
                                       return (layout.division
                                                   ? divided::attention(tape, x.q, x.k, x.v, m, o, *layout.division)
                                                   : attention(tape, x.q, x.k, x.v, m, o))
                                           .output;
                                     });
}

// Queries and keys are divided each in a way of its own: all of them meet.
Var attend(Tape& tape, const Qkv& in, const Mechanism& mechanism, AttentionOptions options, const Layout& layout,
           const Layout& source) {
  options.queries = whole_rows(layout);
  options.keys = whole_rows(source);
  if (options.input.defined()) options.input = whole(tape, options.input, source);
  const divided::Heads heads{whole(tape, in.q, layout), whole(tape, in.k, source), whole(tape, in.v, source), in.ranks};
  const Var all = divided::attention_of_heads(
      tape, heads, mechanism, options, [&](const divided::Heads& x, const Mechanism& m, const AttentionOptions& o) {
        return attention(tape, x.q, x.k, x.v, m, o).output;
      });
  return own(tape, all, layout);
}

Var pool(Tape& tape, const Var& x, const Layout& layout, Pooling pooling) {
  const divided::Division* const division = layout.division.get();
  switch (pooling) {
    case Pooling::mean: return division ? divided::mean_pool(tape, x, *division) : mean_pool(tape, x, layout.rows);
    case Pooling::last: return division ? divided::last_pool(tape, x, *division) : last_pool(tape, x, layout.rows);
    default: return division ? divided::first_pool(tape, x, *division) : first_pool(tape, x, layout.rows);
  }
}

}  // namespace fovea::nn
