#include "core/visit_device.h"
#include "ops/diagonals_kernels.h"
#include "ops/sequence.h"
#include "ops/work.h"

namespace fovea {
namespace {

struct Along {
  std::vector<std::int64_t> offsets;
  std::vector<Span> spans;
  bool ring;
  double scale;

  kernels::DiagonalTensors tensors(const Tensor& x, const Tensor& y, const Tensor& weights) const {
    return {offsets, spans, ring, scale, x, y, weights};
  }
};

// x (b, n, h, d) and y (b, n, kv_h, d) fit together.
void check_heads(const Var& x, const Var& y, const char* name) {
  const bool ranks = x.value().rank() == 4 && y.value().rank() == 4;
  const bool fits = ranks && x.dim(0) == y.dim(0) && x.dim(1) == y.dim(1) && y.dim(2) > 0 && x.dim(2) % y.dim(2) == 0 &&
                    x.dtype() == y.dtype();
  if (!fits)
    fail(ErrorCode::shape,
         std::string(name) + " of " + std::string(name_of(x.dtype())) + x.shape().text() + " and " +
             std::string(name_of(y.dtype())) + y.shape().text(),
         {}, "(b, n, h, ...) and (b, n, kv_h, d) of one dtype, h a multiple of kv_h");
}

Along along_rows(const Var& x, const Diagonals& along, double scale) {
  constexpr std::int64_t kMost = std::int64_t{1} << 31;
  for (std::size_t c = 0; c < along.offsets.size(); ++c)
    if (along.offsets[c] <= -kMost || along.offsets[c] >= kMost)
      fail(ErrorCode::usage, "offset " + std::to_string(along.offsets[c]) + " is longer than any sequence",
           "offsets[" + std::to_string(c) + "]");
  return {along.offsets, spans_of(along.rows, x.dim(0), x.dim(1)), along.ring, scale};
}

void dots(const Context& context, const kernels::DiagonalTensors& io, double outside) {
  visit_device(context, io, [&]<Device D>() { kernels::diagonal_dots<D>(context, io, outside); });
}
void mix(const Context& context, const kernels::DiagonalTensors& io) {
  visit_device(context, io, [&]<Device D>() { kernels::diagonal_mix<D>(context, io); });
}
void mix_back(const Context& context, const kernels::DiagonalTensors& io) {
  visit_device(context, io, [&]<Device D>() { kernels::diagonal_mix_back<D>(context, io); });
}

// saved: q, k.
void scores_backward(Tape& tape, Node& node) {
  const Context& context = tape.context();
  const auto& along = std::any_cast<const Along&>(node.attributes);
  const Tensor &q = node.saved[0], &k = node.saved[1], g = node.grad().contiguous(context);
  if (node.wants(0)) {
    const Tensor dq = Tensor::empty(context, q.shape(), q.dtype());
    mix(context, along.tensors(dq, k, g));
    tape.accumulate(node.inputs[0], dq);
  }
  if (!node.wants(1)) return;
  const Tensor dk = Tensor::empty(context, k.shape(), k.dtype());
  mix_back(context, along.tensors(q, dk, g));
  tape.accumulate(node.inputs[1], dk);
}

// saved: weights, v.
void mix_backward(Tape& tape, Node& node) {
  const Context& context = tape.context();
  const auto& along = std::any_cast<const Along&>(node.attributes);
  const Tensor &weights = node.saved[0], &v = node.saved[1], g = dense_rows(context, node.grad());
  if (node.wants(0)) {
    const Tensor d_weights = Tensor::empty(context, weights.shape(), weights.dtype());
    dots(context, along.tensors(g, v, d_weights), 0.0);
    tape.accumulate(node.inputs[0], d_weights);
  }
  if (!node.wants(1)) return;
  const Tensor dv = Tensor::empty(context, v.shape(), v.dtype());
  mix_back(context, along.tensors(g, dv, weights));
  tape.accumulate(node.inputs[1], dv);
}

constexpr Op kDiagonalScores{"diagonal_scores", scores_backward};
constexpr Op kMixDiagonals{"mix_diagonals", mix_backward};

}  // namespace

Var diagonal_scores(Tape& tape, const Var& q, const Var& k, const Diagonals& along,
                    const DiagonalScoreOptions& scores) {
  check_heads(q, k, "diagonal_scores");
  if (q.dim(3) != k.dim(3))
    fail(ErrorCode::shape, "q has " + std::to_string(q.dim(3)) + " channels, k has " + std::to_string(k.dim(3)));
  const Context& context = tape.context();
  const Along rows = along_rows(q, along, scores.scale);
  const auto count = static_cast<std::int64_t>(along.offsets.size());
  const Tensor x = dense_rows(context, q.value()), y = dense_rows(context, k.value());
  const Tensor out = Tensor::empty(context, q.shape().with(-1, count), q.dtype());
  dots(context, rows.tensors(x, y, out), scores.outside);
  return tape.record(kDiagonalScores, {q, k}, out, {x, y}, rows);
}

Var mix_diagonals(Tape& tape, const Var& weights, const Var& v, const Diagonals& along) {
  check_heads(weights, v, "mix_diagonals");
  const Context& context = tape.context();
  const Along rows = along_rows(weights, along, 1.0);
  if (weights.dim(3) != static_cast<std::int64_t>(along.offsets.size()))
    fail(ErrorCode::shape,
         std::to_string(weights.dim(3)) + " weights for " + std::to_string(along.offsets.size()) + " offsets");
  const Tensor p = weights.value().contiguous(context), y = dense_rows(context, v.value());
  const Tensor out = Tensor::empty(context, weights.shape().with(-1, v.dim(3)), v.dtype());
  mix(context, rows.tensors(out, y, p));
  return tape.record(kMixDiagonals, {weights, v}, out, {p, y}, rows);
}

}  // namespace fovea
