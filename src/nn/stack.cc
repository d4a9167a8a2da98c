#include "nn/stack.h"

#include "nn/divided.h"

namespace fovea::nn {
namespace {

// Adds the open branch to the residual and normalises. Returns what the next sub-layer reads.
AddNorm close_branch(Tape& tape, const Stream& stream, double dropout_p, const NormLayer& norm, const Layout& layout) {
  if (stream.branch.defined()) return norm.add(tape, stream.residual, stream.branch, dropout_p, layout);
  return {stream.residual, norm(tape, stream.residual, layout)};
}

// The residual with the open branch, without a norm.
Var sum_of(Tape& tape, const Stream& stream, double dropout_p, const Layout& layout) {
  return stream.branch.defined() ? add(tape, stream.residual, dropout(tape, stream.branch, dropout_p, layout))
                                 : stream.residual;
}

// Which parts of a stream are there: a list of Vars has only those.
struct Parts {
  bool branch, penalty;

  static Parts of(const Stream& stream) { return {stream.branch.defined(), stream.penalty.defined()}; }
  std::vector<Var> pack(const Stream& stream) const {
    std::vector<Var> vars;
    vars.reserve(4);
    vars.push_back(stream.residual);
    if (branch) vars.push_back(stream.branch);
    if (penalty) vars.push_back(stream.penalty);
    return vars;
  }
  Stream unpack(std::span<const Var> vars) const {
    std::size_t next = 1;
    Stream stream{vars[0], {}, {}};
    if (branch) stream.branch = vars[next++];
    if (penalty) stream.penalty = vars[next++];
    return stream;
  }
};

// One block that backward runs again. Inputs: the stream and, where there is one, the source. Outputs: the stream.
class BlockSegment : public Segment {
 public:
  BlockSegment(const Block& block, std::shared_ptr<const Layout> layout, Parts parts, Source source)
      : block_(&block), layout_(std::move(layout)), parts_(parts), source_(std::move(source)) {
    source_.rows = {};  // comes as an input, so that its gradient is known
  }

  std::vector<Var> run(Tape& tape, std::span<const Var> inputs) const override {
    Source source = source_;
    if (source.layout != nullptr) source.rows = inputs.back();
    const Stream out = (*block_)(tape, parts_.unpack(inputs), *layout_, source);
    made_ = Parts::of(out);
    return made_.pack(out);
  }
  const Parts& made() const { return made_; }  // what the outputs of the last run are

 private:
  const Block* block_;
  std::shared_ptr<const Layout> layout_;
  Parts parts_;
  mutable Parts made_ = {};
  Source source_;
};

Stream run_again_later(Tape& tape, const Block& block, const Stream& stream,
                       const std::shared_ptr<const Layout>& layout, const Source& source) {
  const Parts parts = Parts::of(stream);
  std::vector<Var> inputs = parts.pack(stream);
  if (source.defined()) inputs.push_back(source.rows);
  const auto segment = std::make_shared<BlockSegment>(block, layout, parts, source);
  const std::vector<Var> out = recompute(tape, segment, inputs);
  return segment->made().unpack(out);
}

}  // namespace

Block::Block(const Scope& scope, const StackSpec& spec, std::size_t index)
    : place_("layers[" + std::to_string(index) + "]"),
      placement_(spec.placement),
      dropout_(spec.dropout),
      attention_norm_(scope / "attention_norm", spec),
      feed_forward_norm_(scope / "feed_forward_norm", spec),
      attention_(within(place_ + ".attention", [&] { return AttentionLayer(scope / "attention", spec, index); })) {
  if (!spec.cross.empty()) {
    cross_norm_.emplace(scope / "cross_norm", spec);
    within(place_ + ".cross", [&] { cross_.emplace(scope / "cross", spec, index, Role::cross); });
    if (spec.gated_cross) gate_ = (scope / "cross").add("gate", {1}, Init::zeros());
  }
  if (spec.experts > 0)
    experts_.emplace(scope / "feed_forward", spec);
  else
    feed_forward_.emplace(scope / "feed_forward", spec);
}

Var Block::cross(Tape& tape, const Var& x, const Layout& layout, const Source& source) const {
  const Var branch = (*cross_)(tape, x, layout, source);
  return gate_.defined() ? mul(tape, branch, activate(tape, gate_, Activation::tanh)) : branch;
}

Var Block::feed_forward(Tape& tape, Stream& stream, const Var& x, const Layout& layout) const {
  if (feed_forward_) return (*feed_forward_)(tape, x, layout);
  const ExpertLayer::Result result = (*experts_)(tape, x, layout);
  if (result.penalty.defined())
    stream.penalty = stream.penalty.defined() ? add(tape, stream.penalty, result.penalty) : result.penalty;
  return result.output;
}

template <class Sublayer>
void Block::around(Tape& tape, Stream& stream, const NormLayer& norm, const Layout& layout, Sublayer&& sublayer) const {
  if (placement_ == NormPlacement::pre) {
    const auto [sum, normed] = close_branch(tape, stream, dropout_, norm, layout);
    stream.residual = sum;
    stream.branch = sublayer(normed);
  } else {
    const Var branch = sublayer(stream.residual);
    stream.residual = norm.add(tape, stream.residual, branch, dropout_, layout).normed;
  }
}

bool Block::feed_forward_at_once(Tape& tape, Stream& stream) const {
  if (placement_ != NormPlacement::pre || !feed_forward_ || !stream.branch.defined() || !feed_forward_norm_.by_rows())
    return false;
  const Tape::Stay stay = tape.enter("feed_forward");
  const FeedForwardResult result =
      feed_forward_->at_once(tape, {stream.residual, stream.branch, feed_forward_norm_.row_norm()});
  if (!result.y.defined()) return false;
  stream.residual = result.sum;
  stream.branch = result.y;
  return true;
}

Stream Block::operator()(Tape& tape, Stream stream, const Layout& layout, const Source& source) const {
  tape.at(place_, [&] {
    around(tape, stream, attention_norm_, layout, [&](const Var& x) {
      const Tape::Stay stay = tape.enter("attention");
      return attention_(tape, x, layout);
    });
    if (cross_)
      around(tape, stream, *cross_norm_, layout, [&](const Var& x) {
        const Tape::Stay stay = tape.enter("cross");
        return cross(tape, x, layout, source);
      });
    if (feed_forward_at_once(tape, stream)) return;
    around(tape, stream, feed_forward_norm_, layout, [&](const Var& x) {
      const Tape::Stay stay = tape.enter("feed_forward");
      return feed_forward(tape, stream, x, layout);
    });
  });
  return stream;
}

Stack::Stack(const Scope& scope, const StackSpec& spec)
    : checkpointing_(spec.checkpointing),
      dropout_(spec.dropout),
      stage_(scope.stage()),
      weights_(scope.layer_weights()),
      blocks_(spec.layers.size()) {
  const Scope root = scope.as_root();
  const std::int64_t layers = std::ssize(blocks_);
  for (std::int64_t c = 0; c < stage_.chunks; ++c)
    for (std::int64_t i = stage_.begin(layers, c); stage_.has(c) && i < stage_.begin(layers, c + 1); ++i)
      blocks_[static_cast<std::size_t>(i)].emplace(root / "layers" / i, spec, static_cast<std::size_t>(i));
  if (spec.placement == NormPlacement::pre && stage_.last()) final_norm_.emplace(root / "final_norm", spec);
}

Stream Stack::block(Tape& tape, std::size_t i, Stream stream, const std::shared_ptr<const Layout>& layout,
                    const Source& source) const {
  if (weights_ == nullptr) return open_block(tape, i, std::move(stream), layout, source);
  const auto layer = static_cast<std::int64_t>(i);
  stream.residual = enter_layer(tape, stream.residual, *weights_, layer);
  stream = open_block(tape, i, std::move(stream), layout, source);
  stream.residual = leave_layer(tape, stream.residual, *weights_, layer);
  return stream;
}

Stream Stack::open_block(Tape& tape, std::size_t i, Stream stream, const std::shared_ptr<const Layout>& layout,
                         const Source& source) const {
  return checkpointing_ && tape.recording() ? run_again_later(tape, *blocks_[i], stream, layout, source)
                                            : (*blocks_[i])(tape, std::move(stream), *layout, source);
}

Var Stack::close(Tape& tape, const Stream& stream, const Layout& layout) const {
  if (stream.penalty.defined()) tape.charge(stream.penalty);
  return final_norm_ ? close_branch(tape, stream, dropout_, *final_norm_, layout).normed : stream.residual;
}

Var Stack::operator()(Tape& tape, const Var& x, const std::shared_ptr<const Layout>& layout,
                      const Source& source) const {
  return run(tape, {x, layout}, source, {}).rows;
}

Source Stack::run(Tape& tape, Source x, const Source& source, const Between& between) const {
  Stream stream{x.rows, {}, {}};
  for (std::size_t i = 0; i < blocks_.size(); ++i) {
    if (i > 0 && between) {
      x = between(tape, {sum_of(tape, stream, dropout_, *x.layout), x.layout}, i - 1);
      stream = {x.rows, {}, stream.penalty};
    }
    stream = block(tape, i, std::move(stream), x.layout, source);
  }
  return {close(tape, stream, *x.layout), x.layout};
}

// The next rank reads the residual with the branch: half as much travels.
Var Stack::chunk(Tape& tape, const Var& x, const std::shared_ptr<const Layout>& layout, std::int64_t chunk) const {
  Stream stream{x, {}, {}};
  const std::int64_t layers = std::ssize(blocks_), end = stage_.begin(layers, chunk + 1);
  for (std::int64_t i = stage_.begin(layers, chunk); i < end; ++i)
    stream = block(tape, static_cast<std::size_t>(i), std::move(stream), layout, {});
  if (end == layers) return close(tape, stream, *layout);
  if (stream.penalty.defined()) tape.charge(stream.penalty);
  return sum_of(tape, stream, dropout_, *layout);
}

}  // namespace fovea::nn
