#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "autograd/host_stream.h"
#include "core/rng.h"
#include "mechanisms/compose.h"
#include "mechanisms/segments.h"
#include "mechanisms/tiled.h"
#include "ops/sequence.h"
#include "reference/sinkhorn.h"

namespace fovea {
namespace {

reference::Sorting settings(const Mechanism& m) {
  return {.block = m.integer("block"),
          .iterations = m.integer("iterations"),
          .cut = m.integer("cut"),
          .routes = m.integer("routes"),
          .temperature = m.number("temperature"),
          .sum = m.choice("combine") == "sum",
          .masked = m.choice("causal") == "sinkhorn",
          .learned = m.choice("sort") == "learned"};
}

// Of the network that sorts.
enum Weight : std::size_t { kFirst, kFirstBias, kSecond };

// All sequences in blocks of one size, the last of a sequence may be shorter: (sequences, count) of them, empty ones
// behind those of shorter sequences.
struct Blocks {
  Blocks(const Call& call, const reference::Sorting& how);

  std::int64_t sequences, size, count = 0;
  std::vector<std::int64_t> counts;   // blocks that each sequence has
  SegmentTable rows, firsts;          // of the blocks; the first rows of all blocks of a sequence
  std::vector<std::int32_t> lengths;  // rows of each block
  bool ragged = false;                // some blocks are empty
};

Blocks::Blocks(const Call& call, const reference::Sorting& how)
    : sequences(std::ssize(call.queries)), size(std::min(call.queries[0].count, how.block)) {
  for (const Sequences::Rows& sequence : call.queries) {
    counts.push_back((sequence.count + size - 1) / size);
    ragged = ragged || counts.back() != counts[0];
    count = std::max(count, counts.back());
  }
  rows.width = size;
  firsts.width = count;
  const auto number = [](std::int64_t row) { return static_cast<std::int32_t>(row); };
  for (std::int64_t s = 0; s < sequences / call.q.dim(0); ++s) {  // the same for all items
    const Sequences::Rows& own = call.queries[static_cast<std::size_t>(s)];
    firsts.rows.emplace_back();
    for (std::int64_t u = 0; u < count; ++u) {
      rows.rows.emplace_back();
      for (std::int64_t i = u * size; i < std::min(own.count, (u + 1) * size); ++i)
        rows.rows.back().push_back(number(own.begin + i));
      if (u * size < own.count) firsts.rows.back().push_back(number(own.begin + u * size));
    }
  }
  for (std::int64_t item = 0; item < call.q.dim(0); ++item)
    for (const std::vector<std::int32_t>& block : rows.rows) lengths.push_back(number(std::ssize(block)));
}

// A constant of numbers known on the host.
Tensor constant_of(const Context& context, const Shape& shape, const std::vector<double>& values, DType dtype) {
  return Tensor::from<double>(context, shape, values).to(context, dtype);
}

// The mean row of every block, stacked x (sequences blocks, size, heads, d), in the wide type: (sequences, heads,
// blocks, d).
Var block_means(Tape& tape, const Var& x, const Blocks& blocks) {
  const Var wide = cast(tape, x, wide_type(x.dtype()));
  const Var flat = reshape(tape, wide, {x.dim(0), blocks.size, x.dim(2) * x.dim(3)});
  return by_head(tape, reshape(tape, mean_pool(tape, flat, {blocks.lengths, {}}),
                               {blocks.sequences, blocks.count, x.dim(2), x.dim(3)}));
}

// The mean of the rows of x up to the first of every block: all that a block may know of itself when it begins.
Var prefix_means(const Call& call, const Var& x, const Blocks& blocks) {
  Tape& tape = call.tape;
  const DType wide = wide_type(x.dtype());
  const Var running = cumsum(tape, cast(tape, x, wide), call.options.queries);
  std::vector<double> shares;
  for (std::int64_t u = 0; u < blocks.count; ++u)
    shares.insert(shares.end(), static_cast<std::size_t>(x.dim(2) * x.dim(3)),
                  1.0 / static_cast<double>(u * blocks.size + 1));
  const Tensor factors = constant_of(tape.context(), {blocks.count, x.dim(2), x.dim(3)}, shares, wide);
  return by_head(tape, mul(tape, stack_rows(tape, running, blocks.firsts), factors));
}

// What a small network makes of the mean input of block u: one score for every block v there may be.
Var learned_scores(const Call& call, const Blocks& blocks) {
  Tape& tape = call.tape;
  const std::vector<Var>& w = call.options.weights;
  const std::int64_t heads = call.q.dim(2), width = w[kFirst].dim(0), most = w[kSecond].dim(2);
  if (blocks.count > most)
    fail(ErrorCode::bad_input, fmt::format("a sequence of {} blocks, sinkhorn was made for {}", blocks.count, most),
         "k", "a larger max_length");
  const Var x = reshape(tape, call.options.input, {call.q.dim(0), call.q.dim(1), 1, width});
  const Var means =
      call.options.causal ? prefix_means(call, x, blocks) : block_means(tape, stack_rows(tape, x, blocks.rows), blocks);
  const Var hidden = linear(tape, reshape(tape, means, {blocks.sequences, blocks.count, width}), w[kFirst],
                            w[kFirstBias], Activation::relu);
  const Var by_block = reshape(tape, hidden, {blocks.sequences, blocks.count, heads, w[kSecond].dim(1)});
  return slice(tape, by_head(tape, multiply_heads(tape, by_block, w[kSecond])), 3, 0, blocks.count);
}

// The rows of q, k and v, block by block: (sequences blocks, size, heads, d).
using BlockRows = Triple;

// How much block u wants block v: (sequences, heads, blocks, blocks).
Var block_scores(const Call& call, const BlockRows& rows, const Blocks& blocks) {
  if (settings(call.mechanism).learned) return learned_scores(call, blocks);
  Tape& tape = call.tape;
  const Var q = call.options.causal ? prefix_means(call, call.q, blocks) : block_means(tape, rows.q, blocks);
  const Var products = matmul(tape, q, transpose(tape, block_means(tape, rows.k, blocks), 2, 3));
  return scale(tape, products, 1.0 / std::sqrt(static_cast<double>(call.q.dim(3))));
}

// -log(-log U) for every pair of blocks.
Tensor gumbel(Tape& tape, const Var& like) {
  Random random(tape.context().seed(), next_host_stream(tape));
  std::vector<double> noise(static_cast<std::size_t>(like.value().numel()));
  for (double& x : noise) x = -std::log(-std::log(random.uniform_double() + 0x1p-54));
  return constant_of(tape.context(), like.shape(), noise, like.dtype());
}

// 0 where `sees(u, v)`, -inf elsewhere, for scores (sequences, heads, blocks, blocks). Empty blocks see themselves
// alone, and nobody sees them.
template <class Sees>
Tensor block_mask(const Context& context, const Var& scores, const Blocks& blocks, const Sees& sees) {
  std::vector<double> mask;
  for (std::int64_t s = 0; s < blocks.sequences; ++s)
    for (std::int64_t i = 0; i < scores.dim(1) * blocks.count * blocks.count; ++i) {
      const std::int64_t u = i / blocks.count % blocks.count, v = i % blocks.count;
      const bool real = std::max(u, v) < blocks.counts[static_cast<std::size_t>(s)];
      mask.push_back((real ? sees(u, v) : u == v) ? 0.0 : -INFINITY);
    }
  return constant_of(context, scores.shape(), mask, scores.dtype());
}

// Rows, then columns, again and again, in logarithms; the last step gives the shares themselves.
Var doubly_stochastic(Tape& tape, const Var& scores, const reference::Sorting& how) {
  const Var noisy = tape.training() ? add(tape, scores, gumbel(tape, scores)) : scores;
  Var z = scale(tape, noisy, 1.0 / how.temperature);
  for (std::int64_t k = 0; k + 1 < how.iterations; ++k) {
    const Var columns = transpose(tape, log_softmax(tape, z), 2, 3);
    z = transpose(tape, log_softmax(tape, columns), 2, 3);
  }
  return softmax(tape, log_softmax(tape, z), 2);
}

// Picks for every block the best of the blocks that `mask` (sequences, heads, blocks, blocks) leaves, and masks them
// from then on. Gives the share of the pick in the softmax over what was left, 0 elsewhere.
Var pick_blocks(Tape& tape, const Var& scores, Tensor& mask) {
  const Context& context = tape.context();
  const Var left = add(tape, scores, mask);
  const std::int64_t blocks = scores.dim(3), rows = scores.value().numel() / blocks;
  const Index best(top_indices(context, left.value().contiguous(context).reshape({rows, blocks, 1}), 1), 0, blocks,
                   true);
  // Of a row where nothing is left the softmax is 0.
  const auto put = [&](const Tensor& base, double value) {
    const Tensor values = Tensor::empty(context, {rows, 1, 1, 1}, base.dtype());
    values.fill(value);
    return put_rows(tape, base.reshape({rows, blocks, 1, 1}), best, values).value().reshape(scores.shape());
  };
  const Tensor picked = put(Tensor::zeros(context, scores.shape(), scores.dtype()), 1.0);
  mask = put(mask, -INFINITY);
  return mul(tape, softmax(tape, left), picked);
}

// The shares of the mixtures that blocks read, one (sequences, heads, blocks, blocks) each.
std::vector<Var> mixtures(const Call& call, const BlockRows& rows, const Blocks& blocks,
                          const reference::Sorting& how) {
  Tape& tape = call.tape;
  const Var scores = block_scores(call, rows, blocks);
  const auto masked = [&](const auto& sees) { return block_mask(tape.context(), scores, blocks, sees); };
  if (!call.options.causal) {
    const auto anyone = [](std::int64_t, std::int64_t) { return true; };
    return {doubly_stochastic(tape, blocks.ragged ? add(tape, scores, masked(anyone)) : scores, how)};
  }
  if (how.masked) {
    const Tensor mask = masked([](std::int64_t u, std::int64_t v) { return v <= u; });
    return {doubly_stochastic(tape, add(tape, scores, mask), how)};
  }
  Tensor mask = masked([](std::int64_t u, std::int64_t v) { return v < u; });
  std::vector<Var> picks;
  for (std::int64_t t = 0; t < std::min(how.routes, blocks.count - 1); ++t)
    picks.push_back(pick_blocks(tape, scores, mask));
  return picks;
}

// shares (sequences, heads, r, blocks) of stacked x: (sequences, r size, heads, d).
Var mix(Tape& tape, const Var& shares, const Var& x, const Blocks& blocks) {
  const std::int64_t heads = x.dim(2), d = x.dim(3), padded = blocks.count * blocks.size;
  const Var rows = reshape(tape, x, {blocks.sequences, padded, heads, d});
  const Var sources = reshape(tape, by_head(tape, rows), {blocks.sequences, heads, blocks.count, blocks.size * d});
  const Var mixed = matmul(tape, cast(tape, shares, x.dtype()), sources);
  return by_token(tape, reshape(tape, mixed, {blocks.sequences, heads, shares.dim(2) * blocks.size, d}));
}

// The mixtures of every block, one after another, (sequences blocks, mixtures size, heads, d).
Var stack_mixtures(Tape& tape, const std::vector<Var>& shares, const Var& x, const Blocks& blocks) {
  std::vector<Var> parts;
  for (const Var& s : shares)
    parts.push_back(
        reshape(tape, mix(tape, s, x, blocks), {blocks.sequences * blocks.count, blocks.size, x.dim(2), x.dim(3)}));
  return concat(tape, parts, 1);
}

// 0 for the rows of mixtures that exist, -inf for those of a causal block with fewer blocks before it; 0 for `own` rows
// behind them. (sequences blocks, 1, 1, mixtures size + own).
Tensor mixture_bias(const Call& call, std::int64_t mixtures, const Blocks& blocks, std::int64_t own) {
  const std::int64_t items = blocks.sequences * blocks.count, rows = mixtures * blocks.size;
  std::vector<double> bias;
  for (std::int64_t b = 0; b < items; ++b)
    for (std::int64_t j = 0; j < rows + own; ++j)
      bias.push_back(j >= b % blocks.count * blocks.size && j < rows ? -INFINITY : 0.0);
  return constant_of(call.tape.context(), {items, 1, 1, rows + own}, bias, wide_type(call.q.dtype()));
}

// A block's own rows are part of a masked mixture: query t may read its rows up to t. (1, 1, size, size + own).
Tensor masked_bias(const Call& call, const Blocks& blocks, std::int64_t own) {
  std::vector<double> bias;
  for (std::int64_t t = 0; t < blocks.size; ++t)
    for (std::int64_t j = 0; j < blocks.size + own; ++j) bias.push_back(j > t && j < blocks.size ? -INFINITY : 0.0);
  return constant_of(call.tape.context(), {1, 1, blocks.size, blocks.size + own}, bias, wide_type(call.q.dtype()));
}

struct Stack {
  Var k, v;
  AttentionOptions options;  // causal or not, bias
  std::int64_t before;       // rows of k in front of a block's own
  bool own;                  // are there any of its own?
};

// For every row of an item its place in the stacked blocks.
SegmentTable places_of(const Blocks& blocks, const Call& call) {
  SegmentTable places{call.q.dim(1), {{}}};
  for (std::size_t b = 0; b < blocks.rows.rows.size(); ++b)
    for (std::size_t i = 0; i < blocks.rows.rows[b].size(); ++i)
      places.rows[0].push_back(static_cast<std::int32_t>(static_cast<std::int64_t>(b) * blocks.size) +
                               static_cast<std::int32_t>(i));
  return places;
}

// Softmax of the blocks of q over a stack: (sequences blocks, size, heads, d_v).
Var attend_stack(const Call& call, const Blocks& blocks, const Var& q, Stack stack) {
  stack.options.scale = scale_of(call);
  stack.options.queries.lengths = blocks.lengths;
  for (std::int32_t count : blocks.lengths)
    stack.options.keys.lengths.push_back(
        count == 0 ? 0 : static_cast<std::int32_t>(stack.before) + (stack.own ? count : 0));
  return run_tiled({call.tape, q, stack.k, stack.v, call.mechanism, stack.options,
                    stack.options.queries.rows(q.dim(0), q.dim(1), "queries"),
                    stack.options.keys.rows(stack.k.dim(0), stack.k.dim(1), "keys")},
                   {})
      .output;
}

// Each block over its mixtures and itself.
Var attend_blocks(const Call& call, const Blocks& blocks, const BlockRows& rows, const std::vector<Var>& shares) {
  Tape& tape = call.tape;
  const reference::Sorting how = settings(call.mechanism);
  AttentionOptions near, far;
  near.causal = call.options.causal;
  const auto attend = [&](const Stack& stack) { return attend_stack(call, blocks, rows.q, stack); };
  if (shares.empty()) return attend({rows.k, rows.v, near, 0, true});
  const std::int64_t mixtures = static_cast<std::int64_t>(shares.size()), before = mixtures * blocks.size;
  const Var far_k = stack_mixtures(tape, shares, rows.k, blocks), far_v = stack_mixtures(tape, shares, rows.v, blocks);
  const std::int64_t own = how.sum ? 0 : blocks.size;
  if (call.options.causal)
    (how.sum ? far : near).bias =
        how.masked ? masked_bias(call, blocks, own) : mixture_bias(call, mixtures, blocks, own);
  if (!how.sum)
    return attend({concat(tape, std::vector<Var>{far_k, rows.k}, 1), concat(tape, std::vector<Var>{far_v, rows.v}, 1),
                   near, before, true});
  return add(tape, attend({rows.k, rows.v, near, 0, true}), attend({far_k, far_v, far, before, false}));
}

// All queries over the first mixtures.
Var attend_cut(const Call& call, const Blocks& blocks, const BlockRows& rows, const Var& shares) {
  const std::int64_t cut = settings(call.mechanism).cut;
  const Var first = slice(call.tape, shares, 2, 0, std::min(cut, blocks.count));
  const Var k = mix(call.tape, first, rows.k, blocks), v = mix(call.tape, first, rows.v, blocks);
  AttentionOptions options;
  options.scale = call.options.scale;
  auto keys = rows_beside(call, k.dim(1));
  for (std::size_t s = 0; s < keys.size(); ++s) keys[s].count = std::min(cut, blocks.counts[s]) * blocks.size;
  return run_tiled({call.tape, call.q, beside(call, k), beside(call, v), call.mechanism, options, call.queries, keys},
                   {})
      .output;
}

Var attend(const Call& given) {
  const Call call = with_repeated_heads(given);
  Tape& tape = call.tape;
  const reference::Sorting how = settings(call.mechanism);
  const Blocks blocks(call, how);
  const auto stack = [&](const Var& x) { return stack_rows(tape, x, blocks.rows); };
  const BlockRows rows{stack(call.q), stack(call.k), stack(call.v)};
  const std::vector<Var> shares = mixtures(call, rows, blocks, how);
  if (how.cut > 0) return attend_cut(call, blocks, rows, shares[0]);
  const Var o = attend_blocks(call, blocks, rows, shares);
  const std::int64_t items = call.q.dim(0), places = o.dim(0) * o.dim(1) / items;
  return stack_rows(tape, reshape(tape, o, {items, places, o.dim(2), o.dim(3)}), places_of(blocks, call));
}

// Sequences that run together have as many blocks as the longest of them, some of them empty. Few are not worth a run
// of their own; of more than 8 less than a sixth are empty.
std::int64_t blocks_alike(std::int64_t blocks) {
  return blocks < 8 ? 0 : static_cast<std::int64_t>(4.0 * std::log2(static_cast<double>(blocks)));
}

// Blocks of a shorter sequence are shorter: it runs with its like.
AttentionResult run(const Call& call) {
  const std::int64_t block = settings(call.mechanism).block;
  const auto kind = [&](std::int64_t n, std::int64_t) {
    return n < block ? -n : blocks_alike((n + block - 1) / block);
  };
  return {all_sequences(call, attend, kind), {}, {}};
}

reference::Result define(const reference::Problem& problem, const Mechanism& mechanism) {
  return reference::sinkhorn(problem, settings(mechanism));
}

bool lacks(const Mechanism& mechanism, Feature feature) {
  const reference::Sorting how = settings(mechanism);
  return (how.cut > 0 && feature == Feature::causal) || ((how.cut > 0 || how.masked) && feature == Feature::strict);
}

bool leaks(const Mechanism& mechanism) { return settings(mechanism).masked; }

bool spares_input(const Mechanism& mechanism) { return !settings(mechanism).learned; }

std::vector<WeightSpec> weights(const Mechanism& mechanism, const LayerSizes& s) {
  const reference::Sorting how = settings(mechanism);
  if (!how.learned) return {};
  const std::int64_t hidden = s.d_k, blocks = s.max_length < 0 ? -1 : (s.max_length + how.block - 1) / how.block;
  Shape second{s.heads, hidden, 0};
  second.set(-1, blocks);  // -1 where it is not known
  return {{.name = "sort_in",
           .shape = {s.width, s.heads * hidden},
           .init = Init::xavier(s.width, hidden),
           .decay = true,
           .axes = "width, heads d_k",
           .meaning = "first layer of the network that scores blocks by their mean input, d_k hidden units of a head"},
          {.name = "sort_in_bias",
           .shape = {s.heads * hidden},
           .init = Init::zeros(),
           .axes = "heads d_k",
           .meaning = "added before the hidden units are rectified"},
          {.name = "sort_out",
           .shape = second,
           .init = Init::xavier(hidden, std::max<std::int64_t>(1, blocks)),
           .decay = true,
           .axes = "heads, d_k, max_length / block",
           .meaning = "second layer: the score of each block to be read, as many as the longest sequence has"}};
}

Flops flops(const Sizes& s, const Mechanism& mechanism) {
  const reference::Sorting how = settings(mechanism);
  const double block = std::min(static_cast<double>(how.block), s.n), blocks = std::ceil(s.n / block);
  const bool routed = s.causal && !how.masked;
  const double mixtures = routed ? static_cast<double>(how.routes) : 1.0;
  const double keys = how.cut > 0 ? block * std::min(static_cast<double>(how.cut), blocks)
                                  : block * (mixtures + (s.causal ? 0.5 : 1.0));
  Flops all = pairwise_flops(s.n * keys, s);
  const double mix = routed ? 0.0 : 2.0 * blocks * s.n * s.heads * (s.d_k + s.d_v);  // routed blocks are copied
  all.forward += mix;
  all.backward += 2.0 * mix;
  return all;
}

}  // namespace

const MechanismKind& sinkhorn_kind() {
  static const MechanismKind kind{
      .name = "sinkhorn",
      .family = "dynamic sparse",
      .summary = "blocks that attend to themselves and to a block sorted to them by Sinkhorn's iterations",
      .paper = "Tay et al. 2020, Sparse Sinkhorn Attention",
      .parameters =
          {{"block", std::int64_t{64}, 1, 65536, {}, "tokens per block"},
           {"iterations", std::int64_t{7}, 1, 1024, {}, "of normalising rows and columns"},
           {"temperature", 0.75, 0.001, 1000.0, {}, "small: nearly a permutation"},
           {"combine", std::string("concat"), 0, 0, {"concat", "sum"}, "one softmax over both blocks, or one each"},
           {"cut",
            std::int64_t{0},
            0,
            65536,
            {},
            "SortCut: all queries read so many sorted blocks and no others; 0: off"},
           {"routes", std::int64_t{1}, 1, 1024, {}, "causal: earlier blocks that a block reads, the best ones"},
           {"sort",
            std::string("products"),
            0,
            0,
            {"products", "learned"},
            "who wants whom: mean q times mean k, or a network of the mean input, which fixes the longest sequence"},
           {"causal",
            std::string("topk"),
            0,
            0,
            {"topk", "sinkhorn"},
            "the best earlier blocks, or the iteration over blocks that are not later, which is not strictly causal"}},
      .features = {Feature::scale, Feature::causal, Feature::bidirectional, Feature::padding, Feature::packed,
                   Feature::grouped, Feature::strict},
      .lacks = lacks,
      .subquadratic = false,
      .run = run,
      .reference = define,
      .flops = flops,
      .weights = weights,
      .needs_input = true,
      .spares_input = spares_input,
      .chooses = true,
      .leaks = leaks,
      .tested = "sinkhorn:block=4",
      .draws = [](const Mechanism&) { return true; },
  };
  return kind;
}

}  // namespace fovea
