#include "mechanisms/tiled.h"

#include <cmath>

#include "mechanisms/diagonal.h"
#include "mechanisms/layout.h"
#include "mechanisms/mask.h"
#include "mechanisms/score.h"

namespace fovea {
namespace {

// Everything the engine is told, kept for backward.
struct TiledCall {
  tile::Problem problem;
  std::vector<tile::Piece> pieces;
  std::vector<std::shared_ptr<const tile::Plan>> plans;  // keeps the pieces' plans alive
  std::vector<float> slopes;
  std::vector<Sequences::Rows> queries, keys;
  std::optional<tile::Rule> rule;
  bool by_distance = false;  // the bias holds diagonals
};
using SharedCall = std::shared_ptr<const TiledCall>;

enum Saved : std::size_t { kQ, kK, kV, kO, kLse, kBias };

tile::BiasArray<const void*> bias_array(const Tensor& bias) {
  if (!bias.defined()) return {};
  const auto stride = [&](int axis) { return bias.dim(axis) == 1 ? 0 : bias.stride(axis); };
  return {bias.raw(), stride(0), stride(1), stride(2), stride(3)};
}

// The first element of each piece, counted from that of its batch item and head: query position - key position + L - 1,
// where the engine goes by rows. In the gradient every piece has heads x (2 L - 1) elements of its own.
void place_diagonals(std::int64_t heads, std::int64_t width, std::vector<tile::Piece>& pieces) {
  std::int64_t own = 0;
  for (tile::Piece& piece : pieces) {
    piece.bias_at = (width - 1) / 2 + (piece.nk - piece.nq) - piece.q0 + piece.k0;
    piece.d_bias_at = own + piece.bias_at;
    own += heads * width;
  }
}

tile::BiasArray<const void*> diagonal_array(const Tensor& bias) {
  const auto stride = [&](int axis) { return bias.dim(axis) == 1 ? 0 : bias.stride(axis); };
  return {bias.raw(), stride(0), stride(1), 1, -1};
}

Pattern full_pattern(const AttentionOptions& options, Pattern pattern) {
  if (options.causal) pattern = pattern & Pattern::causal();
  if (options.window) pattern = pattern & Pattern::window(options.window->left, options.window->right);
  if (options.pattern) pattern = pattern & *options.pattern;
  return pattern;
}

void add_pieces(const Call& call, const Pattern& pattern, TiledCall& out) {
  for (std::size_t s = 0; s < call.queries.size(); ++s) {
    const Sequences::Rows &q = call.queries[s], &k = call.keys[s];
    if (q.count == 0) continue;
    const tile::TileSize tile = tile::tile_size_for(pattern, q.count, k.count, call.q.dim(3));
    out.plans.push_back(tile::plan_for(pattern, q.count, k.count, tile));
    out.pieces.push_back({q.batch, q.begin, q.count, k.begin, k.count, out.plans.back().get()});
  }
}

SharedCall describe(const Call& call, const Tiled& tiled, const Tensor& bias, double scale) {
  auto out = std::make_shared<TiledCall>();
  const AttentionOptions& options = call.options;
  add_pieces(call, full_pattern(options, tiled.pattern), *out);
  if (options.alibi) out->slopes = alibi_slopes(call.q.dim(2));
  out->rule = tiled.rule;
  out->queries = call.queries;
  out->keys = call.keys;
  tile::Problem& p = out->problem;
  p.dtype = call.q.dtype();
  p.heads = call.q.dim(2);
  p.kv_heads = call.k.dim(2);
  p.d_k = call.q.dim(3);
  p.d_v = call.v.dim(3);
  p.pieces = out->pieces;
  p.weight = tiled.weight;
  p.offset = tiled.offset;
  p.degree = tiled.degree;
  p.scale = scale;
  p.alibi = out->slopes.empty() ? nullptr : out->slopes.data();
  out->by_distance = options.diagonal_bias.defined();
  p.bias = out->by_distance ? diagonal_array(bias) : bias_array(bias);
  if (out->by_distance) place_diagonals(p.heads, bias.dim(2), out->pieces);
  if (options.dropout_p > 0.0 && call.tape.training())
    p.dropout = {static_cast<float>(options.dropout_p), call.tape.context().seed(), call.tape.next_stream()};
  return out;
}

DType statistic_type(DType dtype) { return dtype == DType::f64 ? DType::f64 : DType::f32; }

// Statistics are (b, n, heads); the engine sees them with one more axis of size 1.
template <class Array>
Array statistic_array(const Tensor& lse) {
  return lse.defined() ? Array{lse.raw(), lse.stride(0), lse.stride(1), lse.stride(2)} : Array{};
}

// Room for the gradient of the bias.
Tensor bias_room(const Context& context, const TiledCall& call, const std::vector<Tensor>& saved) {
  const Tensor& bias = saved[kBias];
  if (call.by_distance)
    return Tensor::zeros(context, {std::ssize(call.pieces), call.problem.heads, bias.dim(2)}, bias.dtype());
  const Tensor room = Tensor::empty(context, bias.shape(), bias.dtype());
  if (!(covers(call.queries, saved[kQ].shape()) && covers(call.keys, saved[kK].shape()))) room.fill(0.0);
  return room;
}

tile::BiasArray<void*> gradient_array(const TiledCall& call, const Tensor& room) {
  if (call.by_distance) return {room.raw(), 0, room.dim(2), 1, -1};
  const auto strides = bias_array(room);
  return {room.raw(), strides.batch, strides.head, strides.query, strides.key};
}

Tensor bias_gradient(const Context& context, const TiledCall& call, const Tensor& room, const Shape& shape) {
  if (!call.by_distance) return room;
  std::vector<std::int64_t> batch;
  for (const tile::Piece& piece : call.pieces) batch.push_back(piece.batch);
  return sum_diagonals(context, room, shape, batch);
}

void tiled_backward(Tape& tape, Node& node) {
  const Context& context = tape.context();
  const ZoneTimer timer(context.zones(), Zone::attention);
  const SharedCall& call = std::any_cast<const SharedCall&>(node.attributes);
  const std::vector<Tensor>& saved = node.saved;
  const DType dtype = call->problem.dtype;
  const Tensor d_o =
      node.grad(0).defined() ? dense_rows(context, node.grad(0)) : Tensor::zeros(context, saved[kO].shape(), dtype);
  const Tensor d_lse = node.outputs.size() > 1 ? node.grad(1) : Tensor();
  const Tensor dq = gradient_like(tape, node.inputs[0], saved[kQ], call->queries);
  const Tensor dk = gradient_like(tape, node.inputs[1], saved[kK], call->keys);
  const Tensor dv = gradient_like(tape, node.inputs[2], saved[kV], call->keys);
  const bool bias_grad = node.inputs.size() > 3 && node.wants(3);
  const Tensor d_bias = bias_grad ? bias_room(context, *call, saved) : Tensor();

  tile::Backward io{.q = array_of<tile::In>(saved[kQ]),
                    .k = array_of<tile::In>(saved[kK]),
                    .v = array_of<tile::In>(saved[kV]),
                    .o = array_of<tile::In>(saved[kO]),
                    .lse = statistic_array<tile::In>(saved[kLse]),
                    .d_o = array_of<tile::In>(d_o),
                    .d_lse = statistic_array<tile::In>(d_lse),
                    .dq = array_of<tile::Out>(dq),
                    .dk = array_of<tile::Out>(dk),
                    .dv = array_of<tile::Out>(dv),
                    .d_bias = {}};
  if (bias_grad) io.d_bias = gradient_array(*call, d_bias);
  call->rule ? tile::rule_backward(context, call->problem, *call->rule, io)
             : tile::backward(context, call->problem, io);
  tape.accumulate(node.inputs[0], dq);
  tape.accumulate(node.inputs[1], dk);
  tape.accumulate(node.inputs[2], dv);
  if (bias_grad) tape.accumulate(node.inputs[3], bias_gradient(context, *call, d_bias, saved[kBias].shape()));
}

constexpr Op kTiled{"tiled_attention", tiled_backward};

}  // namespace

std::vector<float> alibi_slopes(std::int64_t heads) {
  std::int64_t power = 1;
  while (power * 2 <= heads) power *= 2;
  std::vector<float> slopes;
  for (std::int64_t h = 0; h < power; ++h)
    slopes.push_back(static_cast<float>(std::exp2(-8.0 * static_cast<double>(h + 1) / static_cast<double>(power))));
  for (std::int64_t h = 0; static_cast<std::int64_t>(slopes.size()) < heads;
       h += 2)  // every other slope of 2 * power heads
    slopes.push_back(static_cast<float>(std::exp2(-8.0 * static_cast<double>(h + 1) / static_cast<double>(2 * power))));
  return slopes;
}

AttentionResult run_tiled(const Call& call, const Tiled& tiled) {
  Tape& tape = call.tape;
  const Context& context = tape.context();
  const Scored score = scored(call);
  const auto [q, k] = rotated(call, score.q, score.k);
  const Var bias = call.options.diagonal_bias.defined()
                       ? turned_diagonals(tape, call.options.diagonal_bias)
                       : masked_bias(tape, call.options.bias, call.options.mask, statistic_type(q.dtype()));
  const Tensor tq = dense_rows(context, q.value()), tk = dense_rows(context, k.value()),
               tv = dense_rows(context, call.v.value());
  const SharedCall described = describe(call, tiled, bias.value(), score.scale);

  const Tensor o = output_like(context, {q.dim(0), q.dim(1), q.dim(2), tv.dim(3)}, q.dtype(), call.queries);
  Tensor lse;
  if (!tiled.rule && tile::has_statistic(tiled.weight)) {
    lse = Tensor::empty(context, {q.dim(0), q.dim(1), q.dim(2)}, statistic_type(q.dtype()));
    lse.fill(-INFINITY);
  }
  const tile::Forward io{array_of<tile::In>(tq), array_of<tile::In>(tk), array_of<tile::In>(tv), array_of<tile::Out>(o),
                         statistic_array<tile::Out>(lse)};
  tiled.rule ? tile::rule_forward(context, described->problem, *tiled.rule, io)
             : tile::forward(context, described->problem, io);

  std::vector<Var> inputs{q, k, call.v};
  if (bias.defined()) inputs.push_back(bias);
  std::vector<Tensor> outputs{o};
  if (call.options.return_lse) outputs.push_back(lse);
  const std::vector<Var> results =
      tape.record(kTiled, inputs, std::move(outputs), {tq, tk, tv, o, lse, bias.value()}, described);
  return {results[0], results.size() > 1 ? results[1] : Var(), {}};
}

}  // namespace fovea
