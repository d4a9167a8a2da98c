#include "nn/divided.h"

#include "parallel/attention.h"
#include "parallel/rows.h"

namespace fovea::nn {

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

Var dropout(Tape& tape, const Var& x, double p, const Layout& layout) {
  return layout.division ? divided::dropout(tape, x, p, *layout.division) : fovea::dropout(tape, x, p);
}

Var attend(Tape& tape, const Qkv& in, const Mechanism& mechanism, AttentionOptions options, const Layout& layout) {
  if (layout.division) return divided::attention(tape, in.q, in.k, in.v, mechanism, options, *layout.division).output;
  options.queries = layout.rows;
  if (options.rotary) options.positions = layout.positions;
  return attention(tape, in.q, in.k, in.v, mechanism, options).output;
}

// Queries and keys are divided each in a way of its own: all of them meet.
Var attend(Tape& tape, const Qkv& in, const Mechanism& mechanism, AttentionOptions options, const Layout& layout,
           const Layout& source) {
  options.queries = whole_rows(layout);
  options.keys = whole_rows(source);
  if (options.input.defined()) options.input = whole(tape, options.input, source);
  const Var all = attention(tape, whole(tape, in.q, layout), whole(tape, in.k, source), whole(tape, in.v, source),
                            mechanism, options)
                      .output;
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
