#include <algorithm>
#include <cmath>

#include "core/parallel.h"
#include "gemm/gemm.h"
#include "mechanisms/compose.h"
#include "mechanisms/tiled.h"
#include "ops/sequence.h"
#include "ops/work.h"
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

constexpr std::int64_t kGrain = 256;  // rows per task
constexpr double kUnitEps = 1e-12;    // under the root of a key's mean square

// Two buckets for every chunk of n tokens, where there are so many directions.
std::int64_t directions_for(const reference::Hashing& how, std::int64_t n) {
  return std::clamp((n + how.chunk - 1) / how.chunk, std::int64_t{1}, how.directions);
}

// One round: the tokens of every item and head sorted by bucket and cut into chunks.
struct Round {
  Tensor bucket;  // i64 (b, n, heads)
  Tensor order;   // i32 (b, n, heads): the token at each place
  Tensor place;   // i32 (b, n, heads): the place of each token
};

// The largest of [z r ; -z r] for every row of z (b, n, heads, d), r (d, directions).
Tensor buckets_of(const Context& context, const Tensor& z, const Tensor& r) {
  const Tensor flat = z.contiguous(context).reshape({z.numel() / z.dim(3), z.dim(3)});
  const Tensor turned = gemm::multiply(context, flat, r.contiguous(context));
  const Tensor out = Tensor::empty(context, {z.dim(0), z.dim(1), z.dim(2)}, DType::i64);
  const std::int64_t count = turned.dim(1);
  visit_wide(turned.dtype(), [&]<class T>() {
    parallel_ranges(context, out.numel(), kGrain, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t row = begin; row < end; ++row) {
        const T* x = turned.data<T>() + row * count;
        const std::int64_t high = std::max_element(x, x + count) - x, low = std::min_element(x, x + count) - x;
        out.data<std::int64_t>()[row] = x[high] >= -x[low] ? high : count + low;
      }
    });
  });
  return out;
}

Round make_round(const Context& context, const Tensor& z, const Tensor& r) {
  Round round{buckets_of(context, z, r), {}, {}};
  round.order = argsort(context, round.bucket);
  round.place = Tensor::empty(context, round.order.shape(), DType::i32);
  const std::int64_t n = z.dim(1), heads = z.dim(2);
  for (std::int64_t i = 0; i < round.order.numel(); ++i) {
    const std::int64_t token = round.order.data<std::int32_t>()[i];
    round.place.data<std::int32_t>()[(i / (n * heads) * n + token) * heads + i % heads] =
        static_cast<std::int32_t>(i / heads % n);
  }
  return round;
}

// Who sees whom in one item and head.
class View {
 public:
  View(const std::vector<Round>& rounds, const reference::Hashing& how, bool causal, std::int64_t item,
       std::int64_t head)
      : how_(how), causal_(causal), n_(rounds[0].order.dim(1)), heads_(rounds[0].order.dim(2)) {
    for (const Round& round : rounds) {
      One one{std::vector<std::int32_t>(size()), std::vector<std::int32_t>(size()), std::vector<std::int64_t>(size())};
      for (std::size_t i = 0; i < size(); ++i) {
        const std::int64_t at = (item * n_ + static_cast<std::int64_t>(i)) * heads_ + head;
        one.token[i] = round.order.data<std::int32_t>()[at];
        one.chunk[i] = static_cast<std::int32_t>(round.place.data<std::int32_t>()[at] / how.chunk);
        one.bucket[i] = round.bucket.data<std::int64_t>()[at];
      }
      rounds_.push_back(std::move(one));
    }
    for (std::size_t count = 1; count <= rounds.size(); ++count)
      corrections_.push_back(how.correct ? -std::log(static_cast<double>(count)) : 0.0);
    for (std::size_t i = 0; i < size(); ++i) alone_.push_back(sees_nobody(i));
  }

  // The bias of the chunks of round r, (chunks, chunk, 2 chunk) with `stride` between chunks: -inf where a pair is not
  // seen, less where it is seen again in other rounds. Starts as -inf.
  template <class T>
  void write_bias(std::size_t r, T* bias, std::int64_t stride) const {
    const std::int64_t m = how_.chunk;
    for (std::int64_t place = 0; place < n_; ++place) {
      const std::size_t i = token(r, place);
      T* row = bias + place / m * stride + place % m * 2 * m;
      const std::int64_t first = (place / m - 1) * m;
      for (std::int64_t p = std::max<std::int64_t>(0, first); p < std::min(n_, first + 2 * m); ++p) {
        const std::size_t j = token(r, p);
        if (sees(rounds_[r], i, j) && (i != j || alone_[i])) row[p - first] = static_cast<T>(correction(i, j));
      }
    }
  }

 private:
  // A round by token: its chunk and bucket; and the tokens in sorted order.
  struct One {
    std::vector<std::int32_t> token, chunk;
    std::vector<std::int64_t> bucket;
  };

  std::size_t size() const { return static_cast<std::size_t>(n_); }
  std::size_t token(std::size_t r, std::int64_t place) const {
    return static_cast<std::size_t>(rounds_[r].token[static_cast<std::size_t>(place)]);
  }
  bool sees(const One& round, std::size_t i, std::size_t j) const {
    const std::int32_t back = round.chunk[i] - round.chunk[j];
    return (back == 0 || back == 1) && (!causal_ || j <= i) && (how_.across || round.bucket[i] == round.bucket[j]);
  }
  double correction(std::size_t i, std::size_t j) const {
    std::size_t count = 0;
    for (const One& round : rounds_) count += sees(round, i, j) ? 1 : 0;
    return corrections_[count - 1];
  }
  bool sees_nobody(std::size_t i) const {
    for (std::size_t r = 0; r < rounds_.size(); ++r) {
      const std::int64_t first = (rounds_[r].chunk[i] - 1) * how_.chunk;
      for (std::int64_t p = std::max<std::int64_t>(0, first); p < std::min(n_, first + 2 * how_.chunk); ++p)
        if (const std::size_t j = token(r, p); j != i && sees(rounds_[r], i, j)) return false;
    }
    return true;
  }

  const reference::Hashing& how_;
  bool causal_;
  std::int64_t n_, heads_;
  std::vector<One> rounds_;
  std::vector<double> corrections_;  // by the number of rounds in which a pair meets
  std::vector<bool> alone_;
};

// The bias of every round's chunks, (b chunks, heads, chunk, 2 chunk): keys are the chunk before and the chunk itself.
std::vector<Tensor> chunk_biases(const Call& call, const std::vector<Round>& rounds, const reference::Hashing& how) {
  const Context& context = call.tape.context();
  const std::int64_t heads = call.q.dim(2), m = how.chunk, chunks = (call.q.dim(1) + m - 1) / m;
  std::vector<Tensor> biases;
  for (std::size_t r = 0; r < rounds.size(); ++r) {
    biases.push_back(Tensor::empty(context, {call.q.dim(0) * chunks, heads, m, 2 * m}, wide_type(call.q.dtype())));
    biases.back().fill(-INFINITY);
  }
  parallel_for(context, call.q.dim(0) * heads, [&](std::int64_t task) {
    const std::int64_t item = task / heads, head = task % heads, square = 2 * m * m;
    const View view(rounds, how, call.options.causal, item, head);
    visit_wide(call.q.dtype(), [&]<class T>() {
      for (std::size_t r = 0; r < rounds.size(); ++r)
        view.write_bias(r, biases[r].data<T>() + (item * chunks * heads + head) * square, heads * square);
    });
  });
  return biases;
}

// The tokens at `width` places of every chunk, from `back` places before it: i32 (b, chunks width, heads), -1 outside.
Tensor chunk_rows(const Context& context, const Tensor& order, std::int64_t chunk, std::int64_t back) {
  const std::int64_t n = order.dim(1), heads = order.dim(2), chunks = (n + chunk - 1) / chunk, width = chunk + back;
  const Tensor index = Tensor::empty(context, {order.dim(0), chunks * width, heads}, DType::i32);
  for (std::int64_t i = 0; i < index.numel(); ++i) {
    const std::int64_t row = i / heads % (chunks * width), place = row / width * chunk + row % width - back;
    const std::int64_t item = i / heads / (chunks * width);
    index.data<std::int32_t>()[i] =
        place < 0 || place >= n ? -1 : order.data<std::int32_t>()[(item * n + place) * heads + i % heads];
  }
  return index;
}

struct Tokens {
  Var q, k, v;  // of all heads; k of unit length times sqrt(d_k)
};

// Attention within the chunks of one round, back in the order of the tokens.
Partial attend_round(const Call& call, const Tokens& tokens, const Round& round, const AttentionOptions& options) {
  Tape& tape = call.tape;
  const std::int64_t items = call.q.dim(0), heads = call.q.dim(2), m = options.bias.dim(2),
                     chunks = options.bias.dim(0);
  const Tensor own = chunk_rows(tape.context(), round.order, m, 0),
               both = chunk_rows(tape.context(), round.order, m, m);
  const auto stack = [&](const Var& x, const Tensor& rows) {
    return reshape(tape, take_rows(tape, x, rows), {chunks, rows.dim(1) * items / chunks, heads, x.dim(3)});
  };
  const Var q = stack(tokens.q, own), k = stack(tokens.k, both), v = stack(tokens.v, both);
  const auto whole = [](const Var& x) { return Sequences{}.rows(x.dim(0), x.dim(1), "rows"); };
  const AttentionResult sorted = run_tiled({tape, q, k, v, call.mechanism, options, whole(q), whole(k)}, {});
  const std::int64_t places = chunks / items * m;
  const Var o = take_rows(tape, reshape(tape, sorted.output, {items, places, heads, v.dim(3)}), round.place);
  const Var lse = take_rows(tape, reshape(tape, sorted.lse, {items, places, heads, 1}), round.place);
  return {o, reshape(tape, lse, {items, call.q.dim(1), heads})};
}

Var attend(const Call& call) {
  Tape& tape = call.tape;
  const Context& context = tape.context();
  reference::Hashing how = settings(call.mechanism);
  const std::int64_t heads = call.q.dim(2), directions = directions_for(how, call.q.dim(1));
  how.chunk = std::min(how.chunk, call.q.dim(1));
  const auto width = static_cast<double>(call.q.dim(3));
  const Var k = repeat_heads(tape, call.k, heads);
  const Tensor z = k.value().to(context, wide_type(k.dtype())), rotations = call.options.weights[0].value();
  std::vector<Round> rounds;
  for (std::int64_t r = 0; r < how.rounds; ++r)
    rounds.push_back(make_round(context, z, rotations.select(0, r).slice(1, 0, directions)));
  const Tokens tokens{call.q, normalize(tape, k, {.kind = NormKind::rms, .eps = kUnitEps}),
                      repeat_heads(tape, call.v, heads)};
  AttentionOptions options;
  options.scale = call.options.scale.value_or(how.root ? 1.0 / std::sqrt(width) : 1.0) / std::sqrt(width);
  options.return_lse = true;
  Partial all;
  const std::vector<Tensor> biases = chunk_biases(call, rounds, how);
  for (std::size_t r = 0; r < rounds.size(); ++r) {
    options.bias = biases[r];
    const Partial part = attend_round(call, tokens, rounds[r], options);
    all = all.output.defined() ? merge(tape, all, part) : part;
  }
  return all.output;
}

AttentionResult run(const Call& call) { return {each_sequence(call, attend), {}, {}}; }

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
      .memory = StepMemory::cache,
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
