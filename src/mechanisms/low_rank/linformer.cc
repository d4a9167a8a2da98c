#include <fmt/format.h>

#include <cmath>

#include "gemm/gemm.h"
#include "mechanisms/compose.h"
#include "reference/low_rank.h"

namespace fovea {
namespace {

bool each_head(const Mechanism& mechanism) { return mechanism.choice("sharing") == "none"; }
bool one_for_both(const Mechanism& mechanism) {
  return mechanism.choice("sharing") == "kv" || mechanism.choice("sharing") == "layerwise";
}

// What is compressed: w (slots, most) for all heads, or (heads, slots, most), and the sequences of x (b, n, heads, d).
// Saved: both, dense.
enum Saved : std::size_t { kX, kW };
using RowList = std::vector<Sequences::Rows>;

bool is_shared(const Tensor& w) { return w.rank() == 2; }

// A sequence of a dense x (b, n, heads, d), as w multiplies it: (n, heads d), or (heads, n, d).
Tensor matrix_of(const Tensor& x, const Sequences::Rows& rows, const Tensor& w) {
  const Tensor own = x.select(0, rows.batch).slice(0, rows.begin, rows.begin + rows.count);
  return is_shared(w) ? own.reshape({own.dim(0), own.dim(1) * own.dim(2)}) : own.transpose(0, 1);
}

// Room for its slots in y (sequences, slots, heads d), or (sequences, heads, slots, d).
Tensor room_for(const Context& context, const Tensor& x, const Tensor& w, std::int64_t sequences) {
  if (is_shared(w)) return Tensor::empty(context, {sequences, w.dim(0), x.dim(2) * x.dim(3)}, x.dtype());
  return Tensor::empty(context, {sequences, w.dim(0), w.dim(1), x.dim(3)}, x.dtype());
}

// The positions of w come first in its gradient, so that those of a sequence are dense: (most, slots).
void vjp_weight(Tape& tape, Node& node, const RowList& rows, const Tensor& g) {
  const Context& context = tape.context();
  const Tensor &x = node.saved[kX], &w = node.saved[kW];
  const std::int64_t heads = is_shared(w) ? 1 : w.dim(0), most = w.dim(-1), slots = w.dim(-2);
  const Tensor sum = Tensor::zeros(context, {heads, most, slots}, wide_type(w.dtype()));
  for (std::size_t s = 0; s < rows.size(); ++s) {
    const Tensor from = matrix_of(x, rows[s], w), seed = g.select(0, static_cast<std::int64_t>(s));
    for (std::int64_t h = 0; h < heads; ++h) {
      const auto of_head = [&](const Tensor& t) { return is_shared(w) ? t : t.select(0, h); };
      gemm::multiply(context, of_head(from), of_head(seed).transpose(0, 1), sum.select(0, h).slice(0, 0, rows[s].count),
                     {.bias = {}, .accumulate = true});
    }
  }
  tape.accumulate(node.inputs[kW], (is_shared(w) ? sum.select(0, 0) : sum).transpose(-1, -2));
}

void compress_backward(Tape& tape, Node& node) {
  const Context& context = tape.context();
  const auto& rows = std::any_cast<const RowList&>(node.attributes);
  const Tensor &x = node.saved[kX], &w = node.saved[kW], g = node.grad().contiguous(context);
  if (node.wants(kW)) vjp_weight(tape, node, rows, g);
  if (!node.wants(kX)) return;
  // Heads come first while products are dense.
  const Tensor dx = Tensor::empty(context, x.shape(), x.dtype());
  for (std::size_t s = 0; s < rows.size(); ++s) {
    const Tensor e = w.slice(w.rank() - 1, 0, rows[s].count).transpose(-1, -2),
                 seed = g.select(0, static_cast<std::int64_t>(s)), to = matrix_of(dx, rows[s], w);
    if (is_shared(w))
      gemm::multiply(context, e, seed, to);
    else
      to.copy_from(gemm::multiply(context, e, seed));
  }
  tape.accumulate(node.inputs[kX], dx);
}

constexpr Op kCompress{"compress_rows", compress_backward};

void check_length(std::int64_t n, const Var& w) {
  if (n > w.dim(-1))
    fail(ErrorCode::bad_input, fmt::format("a sequence of {} tokens, linformer was made for {}", n, w.dim(-1)), "k",
         "a larger max_length");
}

// Whole items x (b, n, heads, d) by the first n columns of w: (b, slots, heads, d). Items and channels stand side by
// side, so that it is one product, or one for each head.
Var compress_items(Tape& tape, const Var& x, const Var& w) {
  const std::int64_t b = x.dim(0), n = x.dim(1), heads = x.dim(2), d = x.dim(3);
  check_length(n, w);
  const Var e = slice(tape, w, -1, 0, n);
  if (is_shared(w.value())) {
    const Var y = matmul(tape, e, reshape(tape, transpose(tape, x, 0, 1), {n, b * heads * d}));
    return transpose(tape, reshape(tape, y, {w.dim(0), b, heads, d}), 0, 1);
  }
  const Var y = matmul(tape, e, reshape(tape, transpose(tape, x, 0, 2), {heads, n, b * d}));
  return transpose(tape, reshape(tape, y, {heads, w.dim(1), b, d}), 0, 2);
}

// The rows of every sequence of x (1, n, heads, d) by the first columns of w: (sequences, slots, heads, d).
Var compress_sequences(Tape& tape, const Var& x, const Var& w, const RowList& rows) {
  const Context& context = tape.context();
  const Tensor in = x.value().contiguous(context), matrix = w.value();
  const Tensor y = room_for(context, in, matrix, std::ssize(rows));
  for (std::size_t s = 0; s < rows.size(); ++s) {
    check_length(rows[s].count, w);
    gemm::multiply(context, matrix.slice(matrix.rank() - 1, 0, rows[s].count), matrix_of(in, rows[s], matrix),
                   y.select(0, static_cast<std::int64_t>(s)));
  }
  const Var slots = tape.record(kCompress, {x, w}, y, {in, matrix}, rows);
  if (!is_shared(matrix)) return transpose(tape, slots, 1, 2);
  return reshape(tape, slots, {y.dim(0), y.dim(1), x.dim(2), x.dim(3)});
}

Var body(const Call& call) {
  const std::vector<Var>& w = call.options.weights;
  const auto compress = [&](const Var& x, const Var& matrix) {
    return call.options.keys.empty() ? compress_items(call.tape, x, matrix)
                                     : compress_sequences(call.tape, x, matrix, call.keys);
  };
  const Var keys = compress(call.k, w.front()), values = compress(call.v, w.back());
  AttentionOptions options = call.options;
  options.queries = options.keys = {};
  return run_tiled({call.tape, call.q, beside(call, keys), beside(call, values), call.mechanism, options, call.queries,
                    rows_beside(call, keys.dim(1))},
                   {})
      .output;
}

AttentionResult run(const Call& given) {
  return {in_wide_type(given, [](const Call& call) { return all_sequences(call, body); }), {}, {}};
}

reference::Result define(const reference::Problem& problem, const Mechanism& mechanism) {
  return reference::linformer(problem, {mechanism.integer("slots"), each_head(mechanism)});
}

bool lacks(const Mechanism& mechanism, Feature feature) { return feature == Feature::grouped && each_head(mechanism); }

std::vector<WeightSpec> weights(const Mechanism& mechanism, const LayerSizes& sizes) {
  const std::int64_t slots = mechanism.integer("slots"), most = sizes.max_length;
  Shape shape = each_head(mechanism) ? Shape{sizes.kv_heads, slots, 0} : Shape{slots, 0};
  shape.set(-1, most);  // -1 where it is not known
  // A slot of the longest sequence is as large as a key.
  const Init init = Init::normal(most > 0 ? 1.0 / std::sqrt(static_cast<double>(most)) : 0.02);
  const bool trained = !mechanism.flag("frozen"), shared = mechanism.choice("sharing") == "layerwise";
  const std::string_view axes = each_head(mechanism) ? "kv_heads, slots, max_length" : "slots, max_length";
  std::vector<WeightSpec> list{{.name = "compress",
                                .shape = shape,
                                .init = init,
                                .trained = trained,
                                .shared = shared,
                                .axes = axes,
                                .meaning =
                                    "E: how much of the key at a position goes to a slot; of the value too where "
                                    "there is no other"}};
  if (!one_for_both(mechanism))
    list.push_back({.name = "compress_values",
                    .shape = shape,
                    .init = init,
                    .trained = trained,
                    .axes = axes,
                    .meaning = "F: how much of the value at a position goes to a slot"});
  return list;
}

// Two compressions, and attention to the slots.
Flops flops(const Sizes& s, const Mechanism& mechanism) {
  const double pairs = s.n * static_cast<double>(mechanism.integer("slots"));
  const Flops slots = pairwise_flops(pairs, s);
  const double compression = pairs * s.heads * 2.0 * (s.d_k + s.d_v);
  return {slots.forward + compression, slots.backward + 2.0 * compression};
}

}  // namespace

const MechanismKind& linformer_kind() {
  static const MechanismKind kind{
      .name = "linformer",
      .family = "low rank",
      .summary = "keys and values are compressed along the sequence to a fixed number of slots by learned matrices",
      .paper = "Wang et al. 2020, Linformer: Self-Attention with Linear Complexity",
      .parameters = {{"slots", std::int64_t{128}, 1, 65536, {}, "keys and values are compressed to so many"},
                     {"sharing",
                      std::string("headwise"),
                      0,
                      0,
                      {"headwise", "none", "kv", "layerwise"},
                      "headwise: one matrix for keys, one for values; none: of each head its own; kv: one for both; "
                      "layerwise: one for both and all layers"},
                     {"frozen", false, 0, 0, {}, "the matrices stay as they were drawn"}},
      .features = {Feature::scale, Feature::bidirectional, Feature::cross, Feature::padding, Feature::packed,
                   Feature::dropout, Feature::grouped},
      .lacks = lacks,
      .subquadratic = true,
      .run = run,
      .reference = define,
      .flops = flops,
      .weights = weights,
      .rounds_freely = true,
  };
  return kind;
}

}  // namespace fovea
