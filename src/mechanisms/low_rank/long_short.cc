#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "mechanisms/compose.h"
#include "reference/low_rank.h"

namespace fovea {
namespace {

constexpr double kNormEps = 1e-5;

std::int64_t floor_div(std::int64_t a, std::int64_t b) { return a >= 0 ? a / b : -((-a + b - 1) / b); }

// Keys of the query's segment and of half a segment on both sides. The window bounds where the predicate is asked.
Pattern segments(std::int64_t width) {
  const std::int64_t side = std::max<std::int64_t>(width / 2, 1), reach = width - 1 + side;
  const auto keep = [width, side](std::int64_t query, std::int64_t key) {
    const std::int64_t begin = floor_div(query, width) * width;
    return key >= begin - side && key < begin + width + side;
  };
  return Pattern::window(reach, reach) & Pattern::predicate("long-short segments", keep, fmt::format("{}", width));
}

// Whole chunks of (b, n, ...), or the sequence as one.
struct Chunks {
  std::int64_t length, count;
};
Chunks chunks_of(const Call& call) {
  const std::int64_t n = call.k.dim(1), chunk = call.mechanism.integer("chunk"), length = chunk > 0 ? chunk : n;
  return {length, n / length};
}

// How much of each token goes to each slot of its chunk: (b, chunks, heads, slots, length).
Var shares(const Call& call, const Chunks& chunks) {
  Tape& tape = call.tape;
  const std::int64_t b = call.k.dim(0), heads = call.q.dim(2), slots = call.mechanism.integer("slots");
  const Var rows = slice(tape, call.options.input, 1, 0, chunks.count * chunks.length);
  const Var scores =
      reshape(tape, linear(tape, rows, call.options.weights[0]), {b, chunks.count, chunks.length, heads, slots});
  return transpose(tape, transpose(tape, softmax(tape, scores, 2), 2, 3), 3, 4);
}

// x (b, n, kv_heads, d) -> (b, chunks slots, heads, d), normalised over all heads.
Var compress(const Call& call, const Chunks& chunks, const Var& shares, const Var& x) {
  Tape& tape = call.tape;
  const std::int64_t b = x.dim(0), heads = call.q.dim(2), d = x.dim(3);
  const Var rows = slice(tape, repeat_heads(tape, x, heads), 1, 0, chunks.count * chunks.length);
  const Var by_chunk = transpose(tape, reshape(tape, rows, {b, chunks.count, chunks.length, heads, d}), 2, 3);
  const Var mixed = transpose(tape, matmul(tape, shares, by_chunk), 2, 3);  // (b, chunks, slots, heads, d)
  return normalize_heads(tape, reshape(tape, mixed, {b, chunks.count * shares.dim(3), heads, d}), NormKind::layer,
                         kNormEps);
}

// A causal query reads the slots of the chunks before its own.
Pattern earlier_slots(const Call& call, const Chunks& chunks) {
  if (!call.options.causal) return Pattern::full();
  const std::int64_t slots = call.mechanism.integer("slots"), shift = call.k.dim(1) - chunks.count * slots;
  const auto keep = [=, length = chunks.length](std::int64_t query, std::int64_t slot) {
    return slot / slots < floor_div(query + shift, length);
  };
  return Pattern::predicate("long-short slots", keep, fmt::format("{},{},{}", slots, shift, chunks.length));
}

Var body(const Call& call) {
  Tape& tape = call.tape;
  const Var k = normalize_heads(tape, call.k, NormKind::layer, kNormEps);
  const Var v = normalize_heads(tape, call.v, NormKind::layer, kNormEps);
  AttentionOptions options;
  options.scale = scale_of(call);
  options.return_lse = true;
  const std::int64_t window = call.mechanism.integer("window");
  const Pattern near = call.options.causal ? Pattern::window(window - 1, 0) : segments(window);
  const AttentionResult recent = run_tiled_on(call, {call.q, k, v}, options, {.pattern = near});
  const Chunks chunks = chunks_of(call);
  if (chunks.count == 0 || call.mechanism.integer("slots") == 0) return recent.output;
  // The bidirectional form compresses what is normalised already, the causal one the projections themselves.
  const bool raw = call.options.causal;
  const Var share = shares(call, chunks);
  const Var far_k = compress(call, chunks, share, raw ? call.k : k);
  const Var far_v = compress(call, chunks, share, raw ? call.v : v);
  const AttentionResult distant =
      run_tiled_on(call, {call.q, far_k, far_v}, options, {.pattern = earlier_slots(call, chunks)});
  return merge(tape, {recent.output, recent.lse}, {distant.output, distant.lse}).output;
}

AttentionResult run(const Call& call) { return {each_sequence_wide(call, body), {}, {}}; }

reference::Result define(const reference::Problem& problem, const Mechanism& m) {
  return reference::long_short(problem, {m.integer("slots"), m.integer("window"), m.integer("chunk")});
}

bool lacks(const Mechanism& mechanism, Feature feature) {
  return (feature == Feature::causal || feature == Feature::strict) && mechanism.integer("chunk") == 0;
}

std::vector<WeightSpec> weights(const Mechanism& mechanism, const LayerSizes& sizes) {
  const std::int64_t slots = mechanism.integer("slots");
  if (slots == 0) return {};
  return {{.name = "project",
           .shape = {sizes.width, sizes.heads * slots},
           .init = Init::xavier(sizes.width, sizes.heads * slots),
           .decay = true,
           .axes = "width, heads slots",
           .meaning =
               "W: the input times it, through a softmax over positions, is a token's share of a slot of a head of q"}};
}

Flops flops(const Sizes& s, const Mechanism& m) {
  const double window = static_cast<double>(m.integer("window")), chunk = static_cast<double>(m.integer("chunk"));
  const double slots = static_cast<double>(m.integer("slots")) * (chunk > 0 ? std::floor(s.n / chunk) : 1.0);
  const double compression = s.n * s.heads * static_cast<double>(m.integer("slots")) * 2.0 * (s.d_k + s.d_v);
  const Flops pairs =
      pairwise_flops(s.n * std::min(s.n, s.causal ? window : 2.0 * window) + s.n * slots * (s.causal ? 0.5 : 1.0), s);
  return {pairs.forward + compression, pairs.backward + 2.0 * compression};
}

}  // namespace

const MechanismKind& long_short_kind() {
  static const MechanismKind kind{
      .name = "long-short",
      .family = "low rank",
      .summary = "nearby keys, and the whole sequence compressed to slots that depend on it, in one softmax",
      .paper = "Zhu et al. 2021, Long-Short Transformer: Efficient Transformers for Language and Vision",
      .parameters =
          {{"slots", std::int64_t{32}, 0, 4096, {}, "what the sequence, or each chunk, is compressed to"},
           {"window",
            std::int64_t{8},
            1,
            65536,
            {},
            "tokens in a segment, which also reads half a segment on both sides; causal: the last so many tokens"},
           {"chunk",
            std::int64_t{0},
            0,
            65536,
            {},
            "tokens that are compressed together, which makes it causal (16 with slots=1, window=512 in the paper); 0: "
            "all of them"}},
      .features = {Feature::scale, Feature::causal, Feature::bidirectional, Feature::cross, Feature::padding,
                   Feature::packed, Feature::grouped, Feature::strict},
      .lacks = lacks,
      .subquadratic = true,
      .run = run,
      .reference = define,
      .flops = flops,
      .weights = weights,
      .needs_input = true,
      .rounds_freely = true,
  };
  return kind;
}

}  // namespace fovea
