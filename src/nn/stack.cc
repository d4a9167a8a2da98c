#include "nn/stack.h"

namespace fovea::nn {
namespace {

// Adds the open branch to the residual and normalises. Returns what the next sub-layer reads.
AddNorm close_branch(Tape& tape, const Stream& stream, double dropout_p, const Norm& norm) {
  if (stream.branch.defined()) return add_norm(tape, stream.residual, stream.branch, dropout_p, norm);
  return {stream.residual, normalize(tape, stream.residual, norm)};
}

// One block that backward runs again. Inputs: the residual, where there is one the branch, where there is one the
// source. Outputs: the residual and the branch.
class BlockSegment : public Segment {
 public:
  BlockSegment(const Block& block, std::shared_ptr<const Layout> layout, bool branch, Source source)
      : block_(&block), layout_(std::move(layout)), branch_(branch), source_(std::move(source)) {
    source_.rows = {};  // comes as an input, so that its gradient is known
  }

  std::vector<Var> run(Tape& tape, std::span<const Var> inputs) const override {
    Stream stream{inputs[0], branch_ ? inputs[1] : Var()};
    Source source = source_;
    if (source.layout != nullptr) source.rows = inputs.back();
    stream = (*block_)(tape, std::move(stream), *layout_, source);
    if (stream.branch.defined()) return {stream.residual, stream.branch};
    return {stream.residual};
  }

 private:
  const Block* block_;
  std::shared_ptr<const Layout> layout_;
  bool branch_;
  Source source_;
};

Stream run_again_later(Tape& tape, const Block& block, const Stream& stream,
                       const std::shared_ptr<const Layout>& layout, const Source& source) {
  const bool branch = stream.branch.defined();
  std::vector<Var> inputs;
  inputs.reserve(3);
  inputs.push_back(stream.residual);
  if (branch) inputs.push_back(stream.branch);
  if (source.defined()) inputs.push_back(source.rows);
  const auto out = checkpoint(tape, std::make_shared<BlockSegment>(block, layout, branch, source), inputs);
  return {out[0], out.size() > 1 ? out[1] : Var()};
}

}  // namespace

Block::Block(const Scope& scope, const StackSpec& spec, std::size_t index)
    : place_("layers[" + std::to_string(index) + "]"),
      placement_(spec.placement),
      dropout_(spec.dropout),
      attention_norm_(make_norm(scope / "attention_norm", spec)),
      cross_norm_(spec.cross.empty() ? Norm{} : make_norm(scope / "cross_norm", spec)),
      feed_forward_norm_(make_norm(scope / "feed_forward_norm", spec)),
      attention_(within(place_ + ".attention", [&] { return AttentionLayer(scope / "attention", spec, index); })),
      feed_forward_(scope / "feed_forward", spec) {
  if (!spec.cross.empty())
    within(place_ + ".cross", [&] { cross_.emplace(scope / "cross", spec, index, Role::cross); });
}

template <class Sublayer>
void Block::around(Tape& tape, Stream& stream, const Norm& norm, Sublayer&& sublayer) const {
  if (placement_ == NormPlacement::pre) {
    const auto [sum, normed] = close_branch(tape, stream, dropout_, norm);
    stream = {sum, sublayer(normed)};
  } else {
    const Var branch = sublayer(stream.residual);
    stream = {add_norm(tape, stream.residual, branch, dropout_, norm).normed, {}};
  }
}

Stream Block::operator()(Tape& tape, Stream stream, const Layout& layout, const Source& source) const {
  within(place_, [&] {
    around(tape, stream, attention_norm_,
           [&](const Var& x) { return within("attention", [&] { return attention_(tape, x, layout); }); });
    if (cross_)
      around(tape, stream, cross_norm_,
             [&](const Var& x) { return within("cross", [&] { return (*cross_)(tape, x, layout, source); }); });
    around(tape, stream, feed_forward_norm_,
           [&](const Var& x) { return within("feed_forward", [&] { return feed_forward_(tape, x); }); });
  });
  return stream;
}

Stack::Stack(const Scope& scope, const StackSpec& spec) : checkpointing_(spec.checkpointing), dropout_(spec.dropout) {
  const Scope root = scope.as_root();
  blocks_.reserve(spec.layers.size());
  for (std::size_t i = 0; i < spec.layers.size(); ++i)
    blocks_.emplace_back(root / "layers" / static_cast<std::int64_t>(i), spec, i);
  if (spec.placement == NormPlacement::pre) final_norm_ = make_norm(root / "final_norm", spec);
}

Var Stack::operator()(Tape& tape, const Var& x, const std::shared_ptr<const Layout>& layout,
                      const Source& source) const {
  Stream stream{x, {}};
  for (const Block& block : blocks_)
    stream = checkpointing_ && tape.recording() ? run_again_later(tape, block, stream, layout, source)
                                                : block(tape, std::move(stream), *layout, source);
  return final_norm_ ? close_branch(tape, stream, dropout_, *final_norm_).normed : stream.residual;
}

}  // namespace fovea::nn
