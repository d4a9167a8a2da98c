#include <algorithm>
#include <numeric>

#include "core/rng.h"
#include "mechanisms/static_sparse/sparse.h"
#include "reference/sparse.h"

namespace fovea {
namespace {

// The blocks of one sequence.
struct BlockChoice {
  std::int64_t blocks, random;
  std::uint64_t seed, layer;
  bool causal, extended;

  // Neighbours and global blocks of a row, in order.
  std::vector<std::int64_t> fixed(std::int64_t row) const {
    std::vector<std::int64_t> all;
    const bool is_global = !extended && !causal && (row == 0 || row == blocks - 1);
    if (is_global) {
      all.resize(static_cast<std::size_t>(blocks));
      std::iota(all.begin(), all.end(), 0);
      return all;
    }
    if (!extended && row > 1) all.push_back(0);
    for (std::int64_t column = row - 1; column <= row + 1; ++column)
      if (column >= 0 && column < (causal ? row + 1 : blocks)) all.push_back(column);
    if (!extended && !causal && row + 1 < blocks - 1) all.push_back(blocks - 1);
    return all;
  }

  // Blocks besides the fixed ones, drawn without putting back. A causal row draws from earlier blocks alone, so that
  // its draw does not depend on how long the sequence gets.
  std::vector<std::int64_t> drawn(std::int64_t head, std::int64_t row) const {
    const std::vector<std::int64_t> taken = fixed(row);
    const std::int64_t limit = causal ? row : blocks;
    const std::int64_t pool = limit - (std::lower_bound(taken.begin(), taken.end(), limit) - taken.begin());
    Random draw(seed * 0x9E3779B97F4A7C15u + layer,
                static_cast<std::uint64_t>(head) << 32 | static_cast<std::uint64_t>(row));
    std::vector<std::int64_t> all;
    const auto has = [&](std::int64_t x) { return std::find(all.begin(), all.end(), x) != all.end(); };
    for (std::int64_t last = pool - std::min(pool, random); last < pool; ++last) {  // Floyd's way to draw a set
      const std::int64_t x = draw.below(static_cast<std::uint32_t>(last + 1));
      all.push_back(has(x) ? last : x);
    }
    for (std::int64_t& x : all)  // the x-th block that is not taken
      for (const std::int64_t block : taken) x += block <= x;
    return all;
  }

  std::vector<std::int64_t> row(std::int64_t head, std::int64_t row) const {
    std::vector<std::int64_t> all = drawn(head, row);
    const std::vector<std::int64_t> more = fixed(row);
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }
};

bool is_extended(const Mechanism& mechanism) { return mechanism.choice("globals") == "etc"; }

BlockChoice choice_of(const Mechanism& mechanism, const PartSizes& sizes) {
  const std::int64_t block = mechanism.integer("block");
  return {(sizes.n_k + block - 1) / block,
          mechanism.integer("random"),
          static_cast<std::uint64_t>(mechanism.integer("seed")),
          static_cast<std::uint64_t>(sizes.layer),
          sizes.causal,
          is_extended(mechanism)};
}

// Every head has random blocks of its own; without any they are all alike.
std::vector<Part> parts(const Mechanism& mechanism, const PartSizes& sizes) {
  const BlockChoice choice = choice_of(mechanism, sizes);
  const bool alike = choice.random == 0;
  std::vector<Part> all;
  for (std::int64_t head = 0; head < (alike ? 1 : sizes.heads); ++head) {
    std::vector<std::vector<std::int64_t>> rows;
    for (std::int64_t row = 0; row < choice.blocks; ++row) rows.push_back(choice.row(head, row));
    all.push_back({Pattern::blocks(mechanism.integer("block"), std::move(rows)), 1, alike ? -1 : head});
  }
  return all;
}

// The learned tokens (tokens, heads, d) once for every sequence, (sequences, tokens, heads, d).
Var for_each_sequence(const Call& call, const Var& tokens) {
  Tape& tape = call.tape;
  const Var one = reshape(tape, cast(tape, tokens, call.q.dtype()), {1, tokens.dim(0), tokens.dim(1), tokens.dim(2)});
  return concat(tape, std::vector<Var>(call.queries.size(), one), 0);
}

// Every query of a sequence over the learned tokens.
AttentionResult read_tokens(const Call& call) {
  Tape& tape = call.tape;
  AttentionOptions options;
  options.scale = call.options.scale;
  options.return_lse = true;
  Var k = for_each_sequence(call, call.options.weights[0]), v = for_each_sequence(call, call.options.weights[1]);
  const std::int64_t sequences = k.dim(0), tokens = k.dim(1), items = call.q.dim(0), rows = sequences / items * tokens;
  k = reshape(tape, k, {items, rows, k.dim(2), k.dim(3)});
  v = reshape(tape, v, {items, rows, v.dim(2), v.dim(3)});
  std::vector<Sequences::Rows> keys;
  for (std::int64_t s = 0; s < sequences; ++s) keys.push_back({s * tokens / rows, s * tokens % rows, tokens});
  return run_tiled({tape, call.q, k, v, call.mechanism, options, call.queries, std::move(keys)}, {});
}

AttentionResult run(const Call& call) {
  if (!is_extended(call.mechanism) || call.queries.empty()) return run_parts(call, parts);
  AttentionOptions options = call.options;
  options.return_lse = true;
  const AttentionResult near =
      run_parts({call.tape, call.q, call.k, call.v, call.mechanism, options, call.queries, call.keys}, parts);
  const AttentionResult global = read_tokens(call);
  const Partial all = merge(call.tape, {near.output, near.lse}, {global.output, global.lse});
  return {all.output, call.options.return_lse ? all.lse : Var(), {}};
}

reference::Result define(const reference::Problem& p, const Mechanism& mechanism) {
  return reference::bigbird(p, {.block = mechanism.integer("block"),
                                .random = mechanism.integer("random"),
                                .extended = is_extended(mechanism),
                                .seed = static_cast<std::uint64_t>(mechanism.integer("seed"))});
}

Flops flops(const Sizes& s, const Mechanism& mechanism) {
  const Flops blocks = parts_flops(s, mechanism, parts);
  if (!is_extended(mechanism)) return blocks;
  const Flops tokens = pairwise_flops(s.n * static_cast<double>(mechanism.integer("tokens")), s);
  return {blocks.forward + tokens.forward, blocks.backward + tokens.backward};
}

// Learned tokens belong to no pair of positions, and are read even where there is no key.
bool lacks(const Mechanism& mechanism, Feature feature) {
  constexpr Features kPairs{Feature::cross, Feature::step, Feature::dropout};
  return is_extended(mechanism) && kPairs.has(feature);
}

std::vector<WeightSpec> weights(const Mechanism& mechanism, const LayerSizes& sizes) {
  if (!is_extended(mechanism)) return {};
  const std::int64_t tokens = mechanism.integer("tokens");
  return {{.name = "global_keys",
           .shape = {tokens, sizes.heads, sizes.d_k},
           .init = Init::normal(1.0),
           .axes = "tokens, heads, d_k",
           .meaning = "keys of the learned tokens, for every head of q"},
          {.name = "global_values",
           .shape = {tokens, sizes.heads, sizes.d_v},
           .init = Init::normal(1.0),
           .axes = "tokens, heads, d_v",
           .meaning = "values of the learned tokens"}};
}

}  // namespace

const MechanismKind& bigbird_kind() {
  static const MechanismKind kind{
      .name = "bigbird",
      .family = "static sparse",
      .summary = "blocks: neighbours, the first and the last, and a few random ones of each head's own",
      .paper = "Zaheer et al. 2020, Big Bird: Transformers for Longer Sequences",
      .parameters = {{"block", std::int64_t{64}, 1, 65536, {}, "tokens per block"},
                     {"random", std::int64_t{3}, 0, 65536, {}, "random blocks of each block of queries"},
                     {"globals",
                      std::string("itc"),
                      0,
                      0,
                      {"itc", "etc"},
                      "itc: the first and the last block are global; etc: learned tokens that all read"},
                     {"tokens", std::int64_t{64}, 1, 65536, {}, "learned tokens of etc"},
                     {"seed", std::int64_t{0}, 0, 1 << 30, {}, "of the random blocks, with the layer and the head"}},
      .features = kPairwise,
      .lacks = lacks,
      .subquadratic = true,
      .step = cached_step(),
      .run = run,
      .reference = define,
      .flops = flops,
      .weights = weights,
      .picture = "bigbird:block=4,random=1",
  };
  return kind;
}

}  // namespace fovea
