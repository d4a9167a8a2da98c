#include <cmath>

#include "mechanisms/compose.h"
#include "mechanisms/segments.h"
#include "reference/recurrent.h"

namespace fovea {
namespace {

constexpr double kBase = 10000.0;

enum Weight : std::size_t { kContent, kPosition, kProjection };

// Distances are seen through so many sines and cosines.
std::int64_t wave_width(std::int64_t d_k) { return d_k + d_k % 2; }

// The keys of every segment: memory, then its own tokens.
struct Keys {
  SegmentTable memory, own;
  std::vector<std::int32_t> counts;
};

Keys keys_of(const Segments& segments, std::int64_t memory) {
  Keys keys{{0, {}}, {0, {}}, {}};
  for (const Segments::Span& span : segments.spans()) {
    std::vector<std::int32_t> old, own;
    for (std::int64_t j = std::max<std::int64_t>(0, span.begin - memory); j < span.end; ++j) {
      old.push_back(static_cast<std::int32_t>(j < span.begin ? j : -1));
      own.push_back(static_cast<std::int32_t>(j < span.begin ? -1 : j));
    }
    keys.counts.push_back(static_cast<std::int32_t>(own.size()));
    keys.memory.rows.push_back(std::move(old));
    keys.own.rows.push_back(std::move(own));
    keys.memory.width = keys.own.width = std::max(keys.own.width, static_cast<std::int64_t>(keys.counts.back()));
  }
  return keys;
}

// Memory and own rows in one stack; without `stop` the gradient flows into both.
Var stack_keys(Tape& tape, const Var& x, const Keys& keys, bool stop) {
  return add(tape, stack_rows(tape, stop ? constant(x) : x, keys.memory), stack_rows(tape, x, keys.own));
}

// W_r^T (q + w): (b, n, heads, d_k) -> (b, n, heads, waves).
Var wave_weights(Tape& tape, const Var& q, const Var& projection) {
  const std::int64_t rows = q.dim(0) * q.dim(1), heads = q.dim(2), waves = projection.dim(2);
  const Var by_head = transpose(tape, reshape(tape, q, {rows, heads, q.dim(3)}), 0, 1);
  const Var product = transpose(tape, matmul(tape, by_head, cast(tape, projection, q.dtype())), 0, 1);
  return reshape(tape, product, {q.dim(0), q.dim(1), heads, waves});
}

// a . R_(i - j) is a product of a rotated by i and of [-sin(j w) | cos(j w)]: the wide keys of the tiled engine.
// Positions count from the first key of a segment.
Var key_waves(const Context& context, const Var& k, std::int64_t waves) {
  const std::int64_t half = waves / 2;
  std::vector<double> table(static_cast<std::size_t>(k.dim(1) * waves));
  for (std::int64_t j = 0; j < k.dim(1); ++j)
    for (std::int64_t m = 0; m < half; ++m) {
      const double angle =
          static_cast<double>(j) * std::pow(kBase, -2.0 * static_cast<double>(m) / static_cast<double>(waves));
      table[static_cast<std::size_t>(j * waves + m)] = -std::sin(angle);
      table[static_cast<std::size_t>(j * waves + half + m)] = std::cos(angle);
    }
  const Tensor rows = Tensor::from<double>(context, {k.dim(1), waves}, table).to(context, k.dtype());
  const Tensor out = Tensor::empty(context, {k.dim(0), k.dim(1), k.dim(2), waves}, k.dtype());
  for (std::int64_t item = 0; item < k.dim(0); ++item)
    for (std::int64_t h = 0; h < k.dim(2); ++h) out.select(0, item).select(1, h).copy_from(rows);
  return out;
}

// Where the stacked queries stand among the keys of their segment, (b segments, length).
Tensor query_positions(const Context& context, const Segments& segments, const Keys& keys, const Var& q) {
  std::vector<std::int32_t> positions;
  const std::size_t count = segments.spans().size();
  for (std::int64_t item = 0; item < q.dim(0); ++item) {
    const std::size_t s = static_cast<std::size_t>(item) % count;
    const std::int32_t first = keys.counts[s] - static_cast<std::int32_t>(segments.spans()[s].count);
    for (std::int64_t i = 0; i < q.dim(1); ++i) positions.push_back(first + static_cast<std::int32_t>(i));
  }
  return Tensor::from<std::int32_t>(context, {q.dim(0), q.dim(1)}, positions);
}

Var attend(const Call& call) {
  Tape& tape = call.tape;
  const Context& context = tape.context();
  const std::vector<Var>& weights = call.options.weights;
  const std::int64_t length = call.mechanism.integer("segment"), waves = wave_width(call.q.dim(3));
  const bool stop = call.mechanism.flag("stop");
  const Segments segments(call.q.dim(1), call.k.dim(1), length);
  const Keys keys = keys_of(segments, call.mechanism.integer("memory"));
  const Var k = stack_keys(tape, call.k, keys, stop), v = stack_keys(tape, call.v, keys, stop);
  const Var content = stack_rows(tape, add(tape, call.q, weights[kContent]), segments.queries());
  const Var position = stack_rows(tape, wave_weights(tape, add(tape, call.q, weights[kPosition]), weights[kProjection]),
                                  segments.queries());
  const Var rotated = rotate(tape, position, query_positions(context, segments, keys, position),
                             {.base = kBase, .halves = true, .width = waves});
  const Var wide_q = concat(tape, std::vector<Var>{content, rotated}, 3);
  const Var wide_k = concat(tape, std::vector<Var>{k, key_waves(context, k, waves)}, 3);
  const double scale = scale_of(call);
  return attend_segments(call, segments, {wide_q, wide_k, v, keys.counts}, scale);
}

AttentionResult run(const Call& call) { return {each_sequence(call, attend), {}, {}}; }

reference::Result define(const reference::Problem& problem, const Mechanism& mechanism) {
  return reference::transformer_xl(problem, mechanism.integer("segment"), mechanism.integer("memory"));
}

std::vector<WeightSpec> weights(const Mechanism&, const LayerSizes& s) {
  const std::int64_t waves = wave_width(s.d_k);
  return {{.name = "content",
           .shape = {s.heads, s.d_k},
           .init = Init::normal(0.02),
           .axes = "heads, d_k",
           .meaning = "u: added to q where it meets keys; before the scale"},
          {.name = "position",
           .shape = {s.heads, s.d_k},
           .init = Init::normal(0.02),
           .axes = "heads, d_k",
           .meaning = "w: added to q where it meets distances; before the scale"},
          {.name = "waves",
           .shape = {s.heads, s.d_k, waves},
           .init = Init::xavier(waves, s.d_k),
           .decay = true,
           .axes = "heads, d_k, d_k",
           .meaning = "W_r: makes a key of the sines, then cosines, of a distance; one more where d_k is odd"}};
}

Flops flops(const Sizes& s, const Mechanism& mechanism) {
  const double segment = std::min(static_cast<double>(mechanism.integer("segment")), s.n);
  const double memory = std::min(static_cast<double>(mechanism.integer("memory")), s.n - segment);
  Sizes wide = s;
  wide.d_k += static_cast<double>(wave_width(static_cast<std::int64_t>(s.d_k)));
  return pairwise_flops(s.n * (memory + segment * (s.causal ? 0.5 : 1.0)), wide);
}

std::int64_t first_needed(const Mechanism& mechanism, const AttentionOptions&, std::int64_t seen) {
  const std::int64_t length = mechanism.integer("segment"), start = seen / length * length;
  return std::max<std::int64_t>(0, start - mechanism.integer("memory")) / length * length;
}

}  // namespace

const MechanismKind& transformer_xl_kind() {
  static const MechanismKind kind{
      .name = "transformer-xl",
      .family = "recurrent",
      .summary = "segments that also read the tokens before them as a memory, with learned relative positions",
      .paper = "Dai et al. 2019, Transformer-XL: Attentive Language Models beyond a Fixed-Length Context",
      .parameters = {{"segment", std::int64_t{128}, 1, 1048576, {}, "tokens per segment"},
                     {"memory", std::int64_t{128}, 0, 1048576, {}, "tokens before the segment that it reads"},
                     {"stop", true, 0, 0, {}, "no gradient flows into the memory"}},
      .features = kSegmented,
      .subquadratic = true,
      .step = cached_step(first_needed),
      .run = run,
      .reference = define,
      .flops = flops,
      .weights = weights,
      .stops_gradient = stops_at_memory,
      .picture = "transformer-xl:segment=8,memory=12",
  };
  return kind;
}

}  // namespace fovea
