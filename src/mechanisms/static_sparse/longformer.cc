#include "mechanisms/compose.h"
#include "mechanisms/static_sparse/sparse.h"
#include "reference/sparse.h"

namespace fovea {
namespace {

enum Weights : std::size_t {
  kQuery,
  kKey,
  kValue
};  // projections of the global tokens, each (width, heads * d) whatever k has

bool owns_projections(const Mechanism& mechanism) {
  return mechanism.integer("globals") > 0 && mechanism.choice("projections") == "own";
}

struct Settings {
  std::int64_t window, dilation, globals;
};
Settings settings_of(const Mechanism& mechanism) {
  return {mechanism.integer("window"), mechanism.integer("dilation"), mechanism.integer("globals")};
}

// Without gaps all is one pattern. With gaps the window runs by classes of tokens, less what the global rows and
// columns hold already.
std::vector<Part> parts(const Mechanism& mechanism, const PartSizes& sizes) {
  const auto [window, dilation, globals] = settings_of(mechanism);
  const std::int64_t side = std::min(window, std::max(sizes.n_q, sizes.n_k) / dilation) * dilation;
  const Pattern near = Pattern::window(side, side), all = first_keys(globals) | first_queries(globals);
  if (globals == 0) return {{near, dilation}};
  if (dilation == 1) return {{near | all}};
  return {{near & ~all, dilation}, {all}};
}

Call with(const Call& call, const Var& q, const Var& k, const Var& v, const AttentionOptions& options) {
  const auto rows = [](const Var& x) { return Sequences{}.rows(x.dim(0), x.dim(1), "rows"); };
  return {call.tape, q, k, v, call.mechanism, options, rows(q), rows(k)};
}

Var heads_of(Tape& tape, const Var& x, std::int64_t width) {
  return reshape(tape, x, {x.dim(0), x.dim(1), x.dim(2) / width, width});
}

// What global rows read: the layer's input at their own places (b, g, width) and at all they see (b, n, width). Causal
// ones see one another alone.
struct GlobalInput {
  Var first, seen;
};

// Projects all that is seen, as every query does.
Var many_globals(const Call& call, const GlobalInput& x) {
  Tape& tape = call.tape;
  const std::vector<Var>& w = call.options.weights;
  const Var q = heads_of(tape, linear(tape, x.first, w[kQuery]), call.q.dim(3));
  const Var k = heads_of(tape, linear(tape, x.seen, w[kKey]), call.k.dim(3));
  const Var v = heads_of(tape, linear(tape, x.seen, w[kValue]), call.v.dim(3));
  return run_tiled(with(call, q, k, v, call.options), {}).output;
}

// rows (b, g, heads, m) times a matrix of every head, weight (1, heads, m, n): (b, g, heads, n).
Var times_heads(Tape& tape, const Var& rows, const Var& weight) {
  const std::int64_t b = rows.dim(0), g = rows.dim(1), heads = rows.dim(2);
  const Var flat = by_head(tape, reshape(tape, rows, {1, b * g, heads, rows.dim(3)}));
  return reshape(tape, by_token(tape, matmul(tape, flat, weight)), {b, g, heads, weight.dim(3)});
}

// The same with the projections of keys and values moved to the few rows that read them: (x W_q)(x W_k)^T x W_v =
// ((x W_q W_k^T) x^T x) W_v. At 1 global token of width 64 this spares all but a 64th of the work.
Var few_globals(const Call& call, const GlobalInput& x) {
  Tape& tape = call.tape;
  const std::vector<Var>& w = call.options.weights;
  const DType wide = w[kQuery].dtype();
  const std::int64_t heads = call.q.dim(2), width = x.seen.dim(2);
  const auto of_heads = [&](const Var& weight, std::int64_t d) {  // (width, heads * d) as (1, heads, width, d)
    return by_head(tape, reshape(tape, weight, {1, width, heads, d}));
  };
  const Var seen = cast(tape, x.seen, wide), all = reshape(tape, seen, {seen.dim(0), seen.dim(1), 1, width});
  const Var q = heads_of(tape, linear(tape, cast(tape, x.first, wide), w[kQuery]), call.q.dim(3));
  const Var reader = times_heads(tape, q, transpose(tape, of_heads(w[kKey], call.q.dim(3)), 2, 3));
  AttentionOptions options = call.options;
  options.scale = scale_of(call);
  const Var read = run_tiled(with(call, reader, all, all, options), {}).output;
  return cast(tape, times_heads(tape, read, of_heads(w[kValue], call.v.dim(3))), call.q.dtype());
}

bool are_few(std::int64_t globals, std::int64_t d_k, std::int64_t d_v) { return 2 * globals < d_k + d_v; }

// The first g rows, (b, g, heads, d_v).
Var global_rows(const Call& call, std::int64_t globals) {
  const Var& input = call.options.input;
  const Var first = slice(call.tape, input, 1, 0, globals);
  const GlobalInput x{first, call.options.causal ? first : input};
  return are_few(globals, call.q.dim(3), call.v.dim(3)) ? few_globals(call, x) : many_globals(call, x);
}

// One whole sequence (or a batch of equal ones): global rows, then the others.
Var attend(const Call& call) {
  Tape& tape = call.tape;
  const std::int64_t n = call.q.dim(1), globals = std::min(call.mechanism.integer("globals"), n);
  const Var first = global_rows(call, globals);
  const Var q = slice(tape, call.q, 1, globals, n);
  const Var rest = run_parts(with(call, q, call.k, call.v, call.options), parts).output;
  return concat(tape, std::vector<Var>{first, rest}, 1);
}

AttentionResult run(const Call& call) {
  if (!owns_projections(call.mechanism)) return run_parts(call, parts);
  return {each_sequence(call, attend), {}, {}};
}

reference::Result define(const reference::Problem& problem, const Mechanism& mechanism) {
  return reference::longformer(problem, {mechanism.integer("window"), mechanism.integer("dilation"),
                                         mechanism.integer("globals"), mechanism.choice("projections") == "own"});
}

// With projections of their own, global rows also need keys and values of all they see, or scores and means of its full
// width: whichever is less.
Flops flops(const Sizes& s, const Mechanism& mechanism) {
  const Flops pairs = parts_flops(s, mechanism, parts);
  if (!owns_projections(mechanism)) return pairs;
  const double rows = std::min(static_cast<double>(mechanism.integer("globals")), s.n), seen = s.causal ? rows : s.n;
  const double width = s.heads * s.d_k;
  const double extra = 2.0 * width * s.heads * seen * std::min(s.d_k + s.d_v, 2.0 * rows);
  return {pairs.forward + extra, pairs.backward + 2.0 * extra};
}

// Global rows have another q, k and v than the options of a pair are about.
bool lacks(const Mechanism& mechanism, Feature feature) {
  constexpr Features kShared{Feature::cross, Feature::dropout, Feature::bias, Feature::window, Feature::pattern,
                             Feature::alibi, Feature::rotary,  Feature::lse,  Feature::step};
  return owns_projections(mechanism) && kShared.has(feature);
}

bool spares_input(const Mechanism& mechanism) { return !owns_projections(mechanism); }

std::vector<WeightSpec> weights(const Mechanism& mechanism, const LayerSizes& sizes) {
  if (!owns_projections(mechanism)) return {};
  const auto projection = [&](const char* name, std::int64_t d) {
    return WeightSpec{
        .name = name,
        .shape = {sizes.width, sizes.heads * d},
        .init = Init::xavier(sizes.width, sizes.heads * d),
        .decay = true,
        .axes = "width, heads d_k",
        .meaning = "projection of the layer's input for the rows of the global tokens, one for every head of q"};
  };
  std::vector<WeightSpec> all{projection("global_q", sizes.d_k), projection("global_k", sizes.d_k),
                              projection("global_v", sizes.d_v)};
  all.back().axes = "width, heads d_v";
  return all;
}

std::int64_t first_needed(const Mechanism& mechanism, const AttentionOptions& options, std::int64_t seen) {
  const auto [window, dilation, globals] = settings_of(mechanism);
  if (globals > 0) return 0;
  return window_needs(std::min(window, seen / dilation + 1) * dilation, options, seen);
}

}  // namespace

const MechanismKind& longformer_kind() {
  static const MechanismKind kind{
      .name = "longformer",
      .family = "static sparse",
      .summary = "a window, and a few first tokens that read all and are read by all, with projections of their own",
      .paper = "Beltagy et al. 2020, Longformer: The Long-Document Transformer",
      .parameters = {{"window", std::int64_t{256}, 0, 1 << 30, {}, "keys on each side of the query"},
                     {"dilation", std::int64_t{1}, 1, 1 << 30, {}, "tokens from one key of the window to the next"},
                     {"globals", std::int64_t{1}, 0, 1 << 30, {}, "first tokens that are global"},
                     {"projections",
                      std::string("own"),
                      0,
                      0,
                      {"own", "shared"},
                      "global tokens read with projections of their own, or with everybody's"}},
      .features = kPairwise,
      .lacks = lacks,
      .subquadratic = true,
      .step = cached_step(first_needed),
      .run = run,
      .reference = define,
      .flops = flops,
      .weights = weights,
      .needs_input = true,
      .spares_input = spares_input,
      .rounds_freely = true,
      .picture = "longformer:window=4,globals=2,projections=shared",
  };
  return kind;
}

}  // namespace fovea
