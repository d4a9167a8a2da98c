#include <algorithm>
#include <cmath>

#include "core/visit_device.h"
#include "gemm/gemm.h"
#include "mechanisms/compose.h"
#include "mechanisms/dynamic_sparse/hashing_kernels.h"
#include "ops/sequence.h"
#include "reference/reformer.h"

namespace fovea {
namespace {

reference::Hashing settings(const Mechanism& m) {
  return {.rounds = m.integer("rounds"),
          .chunk = m.integer("chunk"),
          .directions = m.integer("directions"),
          .across = m.flag("across"),
          .correct = m.choice("duplicates") == "once",
          .root = m.choice("temperature") == "root"};
}

constexpr double kUnitEps = 1e-12;  // under the root of a key's mean square

// Two buckets for every chunk of n tokens, where there are so many directions.
std::int64_t directions_for(const reference::Hashing& how, std::int64_t n) {
  return std::clamp((n + how.chunk - 1) / how.chunk, std::int64_t{1}, how.directions);
}

// All sequences in chunks: those of one batch item follow one another.
Chunks chunks_of(const Call& call, std::int64_t longest) {
  std::vector<std::vector<Chunks::Chunk>> items(static_cast<std::size_t>(call.q.dim(0)));
  Chunks chunks{1, 1, {}};
  for (const auto& [item, begin, count] : call.queries) {
    auto& of_item = items[static_cast<std::size_t>(item)];
    for (std::int64_t first = 0; first < count; first += longest)
      of_item.push_back({begin + first, std::min(longest, count - first), first > 0});
    chunks.width = std::max(chunks.width, std::min(longest, count));
    chunks.each = std::max(chunks.each, std::ssize(of_item));
  }
  for (auto& of_item : items) {
    of_item.resize(static_cast<std::size_t>(chunks.each));
    chunks.list.insert(chunks.list.end(), of_item.begin(), of_item.end());
  }
  return chunks;
}

// One round: the tokens of every sequence and head sorted by bucket and cut into chunks.
struct Round {
  Tensor bucket;                // i64 (b, n, heads)
  kernels::CutChunks cut = {};  // i32
  Tensor bias = {};             // (b chunks, heads, chunk, 2 chunk): keys are the chunk before and the chunk itself
};

// The largest of [z r ; -z r] for every row of z (b, n, heads, d), r (d, directions).
Tensor buckets_of(const Call& call, const reference::Hashing& how, const Tensor& z, const Tensor& r) {
  const Context& context = call.tape.context();
  std::vector<std::int64_t> directions;
  for (const Sequences::Rows& sequence : call.queries) directions.push_back(directions_for(how, sequence.count));
  const std::int64_t most = *std::max_element(directions.begin(), directions.end());
  const Tensor flat = z.contiguous(context).reshape({z.numel() / z.dim(3), z.dim(3)});
  const Tensor rotated = gemm::multiply(context, flat, r.slice(1, 0, most).contiguous(context));
  const kernels::FindBuckets io{rotated.reshape({z.dim(0), z.dim(1), z.dim(2), most}),
                                Tensor::empty(context, {z.dim(0), z.dim(1), z.dim(2)}, DType::i64), &call.queries,
                                &directions};
  visit_device(context, io, [&]<Device D>() { kernels::find_buckets<D>(context, io); });
  return io.bucket;
}

Round make_round(const Call& call, const Tensor& bucket, const Chunks& chunks) {
  const Context& context = call.tape.context();
  const auto table = [&](std::int64_t rows) {
    return Tensor::empty(context, bucket.shape().with(1, rows), DType::i32);
  };
  Round round{bucket};
  round.cut = {argsort(context, bucket, call.options.queries), table(chunks.each * chunks.width),
               table(chunks.each * 2 * chunks.width), table(bucket.dim(1)), &chunks};
  visit_device(context, round.cut, [&]<Device D>() { kernels::cut_chunks<D>(context, round.cut); });
  round.bias = Tensor::empty(context, {std::ssize(chunks.list), bucket.dim(2), chunks.width, 2 * chunks.width},
                             wide_type(call.q.dtype()));
  return round;
}

std::vector<Round> make_rounds(const Call& call, const reference::Hashing& how, const Var& k, const Chunks& chunks) {
  const Context& context = call.tape.context();
  const Tensor z = k.value().to(context, wide_type(k.dtype())), rotations = call.options.weights[0].value();
  std::vector<Round> rounds;
  kernels::SeenPairs io{{}, &chunks, call.options.causal, how.across, how.correct};
  for (std::int64_t r = 0; r < how.rounds; ++r) {
    rounds.push_back(make_round(call, buckets_of(call, how, z, rotations.select(0, r)), chunks));
    const Round& round = rounds.back();
    io.rounds.push_back({round.bucket, round.cut.place, round.cut.both, round.bias});
  }
  visit_device(context, io, [&]<Device D>() { kernels::write_seen_pairs<D>(context, io); });
  return rounds;
}

struct Tokens {
  Var q, k, v;  // of all heads; k of unit length times sqrt(d_k)
};

// Attention within the chunks of one round, back in the order of the tokens.
Partial attend_round(const Call& call, const Tokens& tokens, const Round& round, AttentionOptions options) {
  Tape& tape = call.tape;
  const std::int64_t items = call.q.dim(0), heads = call.q.dim(2), chunks = round.bias.dim(0),
                     width = round.bias.dim(2);
  options.bias = round.bias;
  const auto stack = [&](const Var& x, const Tensor& rows) {
    const Var taken = take_rows(tape, x, Index(rows, -1, x.dim(1)));
    return reshape(tape, taken, {chunks, rows.dim(1) * items / chunks, heads, x.dim(3)});
  };
  const Tensor &own = round.cut.own, &both = round.cut.both;
  const AttentionResult sorted =
      run_tiled_on(call, {stack(tokens.q, own), stack(tokens.k, both), stack(tokens.v, both)}, options, {});
  const std::int64_t places = chunks / items * width;
  const Index place(round.cut.place, -1, places, true);
  const Var o = take_rows(tape, reshape(tape, sorted.output, {items, places, heads, tokens.v.dim(3)}), place);
  const Var lse = take_rows(tape, reshape(tape, sorted.lse, {items, places, heads, 1}), place);
  return {o, reshape(tape, lse, {items, call.q.dim(1), heads})};
}

Var attend(const Call& call) {
  Tape& tape = call.tape;
  const reference::Hashing how = settings(call.mechanism);
  const std::int64_t heads = call.q.dim(2);
  const auto width = static_cast<double>(call.q.dim(3));
  const Var k = repeat_heads(tape, call.k, heads);
  const Tokens tokens{call.q, normalize(tape, k, {.kind = NormKind::rms, .eps = kUnitEps}),
                      repeat_heads(tape, call.v, heads)};
  AttentionOptions options;
  options.scale = call.options.scale.value_or(how.root ? 1.0 / std::sqrt(width) : 1.0) / std::sqrt(width);
  options.return_lse = true;
  const Chunks chunks = chunks_of(call, how.chunk);
  Partial all;
  for (const Round& round : make_rounds(call, how, k, chunks)) {
    const Partial part = attend_round(call, tokens, round, options);
    all = all.output.defined() ? merge(tape, all, part) : part;
  }
  return all.output;
}

AttentionResult run(const Call& call) { return {all_sequences(call, attend), {}, {}}; }

reference::Result define(const reference::Problem& problem, const Mechanism& mechanism) {
  return reference::reformer(problem, settings(mechanism));
}

std::vector<WeightSpec> weights(const Mechanism& mechanism, const LayerSizes& s) {
  const reference::Hashing how = settings(mechanism);
  return {{.name = "rotations",
           .shape = {how.rounds, s.d_k, how.directions},
           .init = Init::normal(1.0),
           .trained = false,
           .axes = "rounds, d_k, directions",
           .meaning = "directions of each round, for all heads: the largest of [k R, -k R] is a token's bucket; short "
                      "sequences use the first of them"}};
}

Flops flops(const Sizes& s, const Mechanism& mechanism) {
  const reference::Hashing how = settings(mechanism);
  const double seen = std::min(2.0 * static_cast<double>(how.chunk), s.n), rounds = static_cast<double>(how.rounds);
  Flops all = pairwise_flops(s.n * rounds * seen * (s.causal ? 0.5 : 1.0), s);
  all.forward += 2.0 * s.n * s.heads * s.d_k * rounds *
                 static_cast<double>(directions_for(how, static_cast<std::int64_t>(s.n)));  // the hashes
  return all;
}

}  // namespace

const MechanismKind& reformer_kind() {
  static const MechanismKind kind{
      .name = "reformer",
      .family = "dynamic sparse",
      .summary = "tokens sorted by a hash of their direction attend within chunks of the sorted order (LSH)",
      .paper = "Kitaev et al. 2020, Reformer: The Efficient Transformer",
      .parameters =
          {{"rounds", std::int64_t{2}, 1, 64, {}, "hashes, each with its own order and chunks"},
           {"chunk", std::int64_t{64}, 1, 65536, {}, "sorted tokens per chunk; it also reads the chunk before"},
           {"directions",
            std::int64_t{64},
            1,
            65536,
            {},
            "random directions of a hash, two buckets each; short sequences use one per chunk"},
           {"across", true, 0, 0, {}, "tokens of other buckets in reach are read too"},
           {"duplicates",
            std::string("once"),
            0,
            0,
            {"once", "every"},
            "a pair that meets in several rounds counts once, or every time as in published code"},
           {"temperature",
            std::string("unit"),
            0,
            0,
            {"unit", "root"},
            "scores with unit keys as they are, or divided by sqrt(d_k) once more"}},
      .features = {Feature::scale, Feature::causal, Feature::bidirectional, Feature::padding, Feature::packed,
                   Feature::grouped},
      .subquadratic = true,
      .run = run,
      .reference = define,
      .flops = flops,
      .weights = weights,
      .log_factor = true,
      .chooses = true,
      .style = {.shared_qk = true},
  };
  return kind;
}

}  // namespace fovea
