#include <cmath>
#include <numeric>

#include "mechanisms/compose.h"
#include "mechanisms/segments.h"
#include "ops/sequence.h"
#include "ops/work.h"
#include "reference/recurrent.h"

namespace fovea {
namespace {

using Pool = reference::Compression::Pool;

reference::Compression settings(const Mechanism& m) {
  const std::string& pool = m.choice("pool");
  return {m.integer("segment"), m.integer("memory"), m.integer("rate"), m.integer("slots"),
          pool == "mean"  ? Pool::mean
          : pool == "max" ? Pool::max
                          : Pool::conv};
}

enum Weight : std::size_t { kKeys, kValues };

// The keys of every segment: compressed groups, then memory, then its own tokens.
struct Keys {
  SegmentTable groups, memory, own;
  std::vector<std::int32_t> counts;
};

// What a segment that begins at `begin` reads. A group of tokens is compressed once all of it has left the memory, so
// that no token is lost between the two.
struct View {
  View(const reference::Compression& how, std::int64_t begin)
      : groups(std::max<std::int64_t>(0, begin - how.memory) / how.rate),
        first_group(std::max<std::int64_t>(0, groups - how.slots)),
        first_token(groups * how.rate) {}

  std::int64_t groups, first_group, first_token;
};

Keys keys_of(const Segments& segments, const reference::Compression& how) {
  Keys keys;
  for (const Segments::Span& span : segments.spans()) {
    const View view(how, span.begin);
    const auto row = [](std::int64_t r) { return static_cast<std::int32_t>(r); };
    std::vector<std::int32_t> groups, memory, own;
    for (std::int64_t t = view.first_group; t < view.groups; ++t) groups.push_back(row(t));
    memory.assign(groups.size(), -1);
    for (std::int64_t j = view.first_token; j < span.begin; ++j) memory.push_back(row(j));
    own.assign(memory.size(), -1);
    for (std::int64_t j = span.begin; j < span.end; ++j) own.push_back(row(j));
    keys.counts.push_back(row(static_cast<std::int64_t>(own.size())));
    keys.own.width = std::max(keys.own.width, static_cast<std::int64_t>(own.size()));
    keys.groups.rows.push_back(std::move(groups));
    keys.memory.rows.push_back(std::move(memory));
    keys.own.rows.push_back(std::move(own));
  }
  keys.groups.width = keys.memory.width = keys.own.width;
  return keys;
}

// Every `rate` rows of x (b, groups rate, heads, d) as one: (b, groups, heads, d).
Var compress(const Call& call, const Var& x, Weight weight) {
  Tape& tape = call.tape;
  const reference::Compression how = settings(call.mechanism);
  const std::int64_t items = x.dim(0), groups = x.dim(1) / how.rate, heads = x.dim(2), d = x.dim(3);
  if (how.pool == Pool::mean) return segment_mean(tape, x, groups).means;
  if (how.pool == Pool::max) {
    const Var channels = reshape(tape, x, {items, x.dim(1), heads * d});
    const Var largest = max_pool1d(tape, channels, {.size = how.rate, .stride = how.rate}).value;
    return reshape(tape, largest, {items, groups, heads, d});
  }
  const Var& kernel = call.options.weights[weight];
  const Var grouped = transpose(tape, reshape(tape, x, {items * groups, how.rate, heads, d}), 1, 2);
  const Var rows = cast(tape, reshape(tape, grouped, {items, groups, heads, how.rate * d}), kernel.dtype());
  return cast(tape, multiply_heads(tape, rows, kernel), x.dtype());
}

// x (b, n, heads, d) as the keys or values of every segment.
Var stack_keys(const Call& call, const Var& x, const Keys& keys, Weight weight) {
  Tape& tape = call.tape;
  const Var old = call.mechanism.flag("stop") ? constant(x) : x;
  const std::int64_t rate = call.mechanism.integer("rate"), groups = x.dim(1) / rate;
  const Var rows = add(tape, stack_rows(tape, old, keys.memory), stack_rows(tape, x, keys.own));
  if (groups == 0) return rows;
  return add(tape, rows, stack_rows(tape, compress(call, slice(tape, old, 1, 0, groups * rate), weight), keys.groups));
}

Var attend(const Call& call) {
  const reference::Compression how = settings(call.mechanism);
  const Segments segments(call.q.dim(1), call.k.dim(1), how.segment);
  const Keys keys = keys_of(segments, how);
  const double scale = scale_of(call);
  return attend_segments(call, segments,
                         {stack_rows(call.tape, call.q, segments.queries()), stack_keys(call, call.k, keys, kKeys),
                          stack_keys(call, call.v, keys, kValues), keys.counts},
                         scale);
}

AttentionResult run(const Call& call) { return {each_sequence(call, attend), {}, {}}; }

reference::Result define(const reference::Problem& problem, const Mechanism& mechanism) {
  return reference::compressive(problem, settings(mechanism));
}

Flops flops(const Sizes& s, const Mechanism& mechanism) {
  const reference::Compression how = settings(mechanism);
  double pairs = 0.0;
  for (std::int64_t begin = 0; begin < static_cast<std::int64_t>(s.n); begin += how.segment) {
    const View view(how, begin);
    const double rows = std::min(static_cast<double>(how.segment), s.n - static_cast<double>(begin));
    const auto old = static_cast<double>(view.groups - view.first_group + begin - view.first_token);
    pairs += rows * (old + rows * (s.causal ? 0.5 : 1.0));
  }
  return pairwise_flops(pairs, s);
}

// Whole groups and whole segments: what is left keeps its phase.
std::int64_t first_needed(const Mechanism& mechanism, const AttentionOptions&, std::int64_t seen) {
  const reference::Compression how = settings(mechanism);
  const View view(how, seen / how.segment * how.segment);
  const std::int64_t step = std::max<std::int64_t>(1, std::lcm(how.segment, how.rate));
  return view.first_group * how.rate / step * step;
}

std::vector<WeightSpec> weights(const Mechanism& mechanism, const LayerSizes& s) {
  const reference::Compression how = settings(mechanism);
  if (how.pool != Pool::conv) return {};
  const auto kernel = [&](const char* name, std::int64_t d) {
    return WeightSpec{
        .name = name, .shape = {s.kv_heads, how.rate * d, d}, .init = Init::xavier(how.rate * d, d), .decay = true};
  };
  WeightSpec keys = kernel("compress_keys", s.d_k), values = kernel("compress_values", s.d_v);
  keys.axes = "kv_heads, rate d_k, d_k";
  keys.meaning = "makes one key of `rate` keys, laid end to end, the oldest first";
  values.axes = "kv_heads, rate d_v, d_v";
  values.meaning = "the same for values";
  return {keys, values};
}

}  // namespace

const MechanismKind& compressive_kind() {
  static const MechanismKind kind{
      .name = "compressive",
      .family = "recurrent",
      .summary = "segments that read the tokens before them, and still older ones compressed",
      .paper = "Rae et al. 2019, Compressive Transformers for Long-Range Sequence Modelling",
      .parameters = {{"segment", std::int64_t{64}, 1, 1048576, {}, "tokens per segment"},
                     {"memory", std::int64_t{64}, 0, 1048576, {}, "tokens before the segment that it reads one by one"},
                     {"rate", std::int64_t{3}, 1, 65536, {}, "older tokens per compressed one"},
                     {"slots", std::int64_t{64}, 0, 1048576, {}, "compressed tokens that are kept, the newest"},
                     {"pool",
                      std::string("mean"),
                      0,
                      0,
                      {"mean", "max", "conv"},
                      "how tokens are compressed; conv: a learned convolution of keys, and one of values"},
                     {"stop", true, 0, 0, {}, "no gradient flows into the memories"}},
      .features = kSegmented,
      .subquadratic = true,
      .step = cached_step(first_needed),
      .run = run,
      .reference = define,
      .flops = flops,
      .weights = weights,
      .stops_gradient = stops_at_memory,
      .picture = "compressive:segment=8,memory=8,rate=2,slots=8",
      .tested = "compressive:segment=4,memory=3",
  };
  return kind;
}

}  // namespace fovea
