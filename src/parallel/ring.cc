#include "parallel/ring.h"

#include <cmath>

#include "autograd/add_into.h"
#include "autograd/host_stream.h"
#include "core/wide.h"
#include "mechanisms/tiled.h"
#include "tile/launch.h"
#include "tile/merge.h"

namespace fovea::divided {
namespace {

struct RingCall {
  Ring ring;
  Division division;
  std::uint64_t stream = 0;
  bool drops = false;
  Tensor slopes;
};
using SharedRing = std::shared_ptr<const RingCall>;

enum RingSaved : std::size_t { kRingQ, kRingK, kRingV, kRingO, kRingLse };

// The keys that one rank's queries read of another's, for every sequence: positions.
std::vector<Pattern::Range> needed(const Ring& ring, const Division& division, int reader, int owner) {
  std::vector<Pattern::Range> out;
  for (std::size_t s = 0; s < division.size(); ++s) {
    const std::int64_t begin = division.begin(s, owner), end = division.end(s, owner);
    Pattern::Range keys{begin, begin};
    if (division.count(s, reader) > 0 && begin < end) {
      keys = ring.pattern.keys(division.begin(s, reader), division.end(s, reader), division.length(s));
      keys = {std::clamp(keys.begin, begin, end), std::clamp(keys.end, begin, end)};
      if (keys.begin >= keys.end) keys = {begin, begin};
    }
    out.push_back(keys);
  }
  return out;
}

std::int64_t rows_of(const std::vector<Pattern::Range>& ranges) {
  std::int64_t rows = 0;
  for (const Pattern::Range& r : ranges) rows += r.end - r.begin;
  return rows;
}

// Some rows of x (1, rows, heads, d), the sequences one after another.
Tensor gathered(const Context& context, const Division& division, const Tensor& x,
                const std::vector<Pattern::Range>& ranges) {
  const Tensor out = Tensor::empty(context, x.shape().with(1, rows_of(ranges)), x.dtype());
  std::int64_t at = 0;
  for (std::size_t s = 0; s < ranges.size(); ++s) {
    const std::int64_t n = ranges[s].end - ranges[s].begin,
                       from = division.row(s) + ranges[s].begin - division.begin(s, division.ranks().rank());
    if (n > 0) out.slice(1, at, at + n).copy_from(x.slice(1, from, from + n));
    at += n;
  }
  return out;
}

// Adds them to where they came from.
void scatter_add(const Context& context, const Division& division, const Tensor& to, const Tensor& rows,
                 const std::vector<Pattern::Range>& ranges) {
  std::int64_t at = 0;
  for (std::size_t s = 0; s < ranges.size(); ++s) {
    const std::int64_t n = ranges[s].end - ranges[s].begin,
                       first = division.row(s) + ranges[s].begin - division.begin(s, division.ranks().rank());
    if (n > 0) add_into(context, to.slice(1, first, first + n), rows.slice(1, at, at + n));
    at += n;
  }
}

// One round: whom this rank reads, who reads it, and what.
struct Round {
  int owner, reader;
  std::vector<Pattern::Range> mine, theirs;

  Round(const RingCall& call, int t)
      : owner((call.division.ranks().rank() - t + call.division.ranks().size()) % call.division.ranks().size()),
        reader((call.division.ranks().rank() + t) % call.division.ranks().size()),
        mine(needed(call.ring, call.division, call.division.ranks().rank(), owner)),
        theirs(needed(call.ring, call.division, reader, call.division.ranks().rank())) {}
};

// The keys or values of a round.
Tensor fetched(const Context& context, const RingCall& call, const Round& round, const Tensor& x) {
  const Tensor out = gathered(context, call.division, x, round.theirs);
  if (round.owner == call.division.ranks().rank()) return out;
  const Tensor in = Tensor::empty(context, x.shape().with(1, rows_of(round.mine)), x.dtype());
  call.division.ranks().shift(out, round.reader, in, round.owner);
  return in;
}

// What the counter of dropout calls head 0 of a sequence, which is an item of its own there: see policy/dropout.h.
std::int64_t first_head(const Division& division, std::size_t s) {
  constexpr int kItem = 32;
  return division.whole_rows(s).batch << kItem;
}

// One engine call for the queries of this rank and the keys of a round; with dropout, which goes by rows of the whole,
// one for each sequence.
std::vector<tile::Work> works_of(const Context& context, const RingCall& call, const Round& round, const Tensor& q,
                                 const Tensor& v) {
  const Division& division = call.division;
  const int rank = division.ranks().rank();
  tile::Problem problem;
  problem.dtype = q.dtype();
  problem.wide_outputs = true;
  problem.heads = q.dim(2);
  problem.kv_heads = v.dim(2);
  problem.d_k = q.dim(3);
  problem.d_v = v.dim(3);
  problem.weight = call.ring.weight;
  problem.offset = call.ring.offset;
  problem.degree = call.ring.degree;
  problem.scale = call.ring.scale;
  std::vector<tile::Work> works;
  std::int64_t at = 0;
  for (std::size_t s = 0; s < division.size(); ++s) {
    const Pattern::Range keys = round.mine[s];
    const std::int64_t nq = division.count(s, rank), nk = keys.end - keys.begin, begin = division.begin(s, rank);
    if (nq == 0) continue;
    if (works.empty() || call.drops) works.push_back({problem, tile::PieceList(context.device())});
    if (call.drops)
      works.back().problem.dropout = {.p = static_cast<float>(call.ring.dropout_p),
                                      .seed = context.seed(),
                                      .stream = call.stream,
                                      .first_head = call.ring.heads.first + first_head(division, s),
                                      .first_query = division.whole_rows(s).begin + begin - division.row(s),
                                      .first_key = division.whole_rows(s).begin + keys.begin - at};
    // The engine has the last query on the last key.
    works.back().pieces.add({.q0 = division.row(s), .nq = nq, .k0 = at, .nk = nk, .gap = (begin + nq) - keys.end},
                            call.ring.pattern.shifted(begin - (nk - nq), keys.begin));
    at += nk;
  }
  return works;
}

bool reads_none(const Round& round) { return rows_of(round.mine) == 0; }

struct Joined {
  Tensor o, lse;
};

void join_round(const Context& context, const RingCall& call, const Round& round, const tile::Inputs& in, Joined& all) {
  const Tensor o = Tensor::zeros(context, all.o.shape(), all.o.dtype());
  const Tensor lse = all.lse.defined() ? Tensor::empty(context, all.lse.shape(), all.lse.dtype()) : Tensor();
  if (lse.defined()) lse.fill(-INFINITY);
  for (const tile::Work& work : works_of(context, call, round, in.q, in.v))
    tile::forward(context, work, {in, o, lse, {}});
  if (lse.defined())
    tile::merge(context, {all.o, all.lse}, {o, lse}, {all.o, all.lse});
  else
    add_into(context, all.o, o);
}

// What a round adds to the gradients: of the queries here, of the keys and values at their owner.
struct RingGradients {
  Tensor dq, dk, dv;  // f32 (f64 for f64)
};

void send_home(const Context& context, const RingCall& call, const Round& round, const Tensor& part, const Tensor& to) {
  Tensor rows = part;
  if (round.owner != call.division.ranks().rank()) {
    rows = Tensor::empty(context, to.shape().with(1, rows_of(round.theirs)), to.dtype());
    call.division.ranks().shift(part.to(context, to.dtype()), round.owner, rows, round.reader);
  }
  scatter_add(context, call.division, to, rows, round.theirs);
}

void turn_back(const Context& context, const RingCall& call, const Round& round, const tile::BackwardTensors& whole,
               const RingGradients& to) {
  const tile::Inputs& in = whole.in;
  const Tensor k = fetched(context, call, round, in.k), v = fetched(context, call, round, in.v);
  tile::BackwardTensors part = whole;
  part.in = {in.q, k, v, {}, in.alibi};
  part.dk = Tensor::zeros(context, k.shape(), k.dtype());
  part.dv = Tensor::zeros(context, v.shape(), v.dtype());
  if (!reads_none(round)) {
    part.dq = Tensor::zeros(context, in.q.shape(), in.q.dtype());
    for (const tile::Work& work : works_of(context, call, round, in.q, v)) tile::backward(context, work, part);
    add_into(context, to.dq, part.dq);
  }
  send_home(context, call, round, part.dk, to.dk);
  send_home(context, call, round, part.dv, to.dv);
}

void ring_backward(Tape& tape, Node& node) {
  const Context& context = tape.context();
  const RingCall& call = *std::any_cast<const SharedRing&>(node.attributes);
  const std::vector<Tensor>& saved = node.saved;
  const auto wide_zeros = [&](const Tensor& x) { return Tensor::zeros(context, x.shape(), wide_type(x.dtype())); };
  const RingGradients sums{wide_zeros(saved[kRingQ]), wide_zeros(saved[kRingK]), wide_zeros(saved[kRingV])};
  const tile::BackwardTensors whole{
      .in = {saved[kRingQ], saved[kRingK], saved[kRingV], {}, call.slopes},
      .o = saved[kRingO],
      .lse = saved[kRingLse],
      .rest = {},
      .d_o = node.grad(0).defined() ? node.grad(0).contiguous(context) : wide_zeros(saved[kRingO]),
      .d_lse = node.outputs.size() > 1 && node.grad(1).defined() ? node.grad(1).contiguous(context) : Tensor(),
      .dq = {},
      .dk = {},
      .dv = {},
      .d_bias = {}};
  for (int t = 0; t < call.division.ranks().size(); ++t) turn_back(context, call, Round(call, t), whole, sums);
  tape.accumulate(node.inputs[0], sums.dq.to(context, saved[kRingQ].dtype()));
  tape.accumulate(node.inputs[1], sums.dk.to(context, saved[kRingK].dtype()));
  tape.accumulate(node.inputs[2], sums.dv.to(context, saved[kRingV].dtype()));
}

constexpr Op kRing{"ring_attention", ring_backward};

}  // namespace

RingResult ring_attention(Tape& tape, const Var& q, const Var& k, const Var& v, const Ring& ring,
                          const Division& division) {
  const Context& context = tape.context();
  const auto call = std::make_shared<RingCall>(RingCall{ring, division, 0, false, {}});
  call->drops = ring.dropout_p > 0.0 && tape.training();
  if (call->drops) call->stream = next_host_stream(tape);
  if (ring.alibi) call->slopes = alibi_slopes(context, q.dim(2), ring.heads);
  const Tensor tq = q.value().contiguous(context), tk = k.value().contiguous(context),
               tv = v.value().contiguous(context);
  const DType wide = wide_type(q.dtype());
  Joined all{Tensor::zeros(context, {1, q.dim(1), q.dim(2), v.dim(3)}, wide), {}};
  if (tile::has_statistic(ring.weight)) {
    all.lse = Tensor::empty(context, {1, q.dim(1), q.dim(2)}, wide);
    all.lse.fill(-INFINITY);
  }
  for (int t = 0; t < division.ranks().size(); ++t) {
    const Round round(*call, t);
    const Tensor round_k = fetched(context, *call, round, tk), round_v = fetched(context, *call, round, tv);
    if (!reads_none(round)) join_round(context, *call, round, {tq, round_k, round_v, {}, call->slopes}, all);
  }
  std::vector<Tensor> outputs{all.o};
  if (all.lse.defined()) outputs.push_back(all.lse);
  const std::vector<Var> inputs{q, k, v};
  const std::vector<Var> results =
      tape.record(kRing, inputs, std::move(outputs), {tq, tk, tv, all.o, all.lse}, SharedRing(call));
  return {results[0], results.size() > 1 ? results[1] : Var()};
}

std::int64_t ring_rows(const Ring& ring, const Division& division) {
  std::int64_t rows = 0;
  const int rank = division.ranks().rank();
  for (int owner = 0; owner < division.ranks().size(); ++owner)
    if (owner != rank) rows += rows_of(needed(ring, division, rank, owner));
  return rows;
}

}  // namespace fovea::divided
