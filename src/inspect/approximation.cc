#include <algorithm>
#include <chrono>
#include <cmath>
#include <numeric>

#include "fovea/inspect.h"
#include "inspect/layer.h"
#include "inspect/sampled_rows.h"
#include "inspect/source.h"
#include "mechanisms/positions.h"
#include "mechanisms/watch.h"

namespace fovea {
namespace {

using inspection::MapShape;
using inspection::size;

constexpr inspection::RowBlocks kCompared{.blocks = 4, .rows = 64};
constexpr std::size_t kTopKeys = 8;
constexpr double kLeastShare = 1e-12;

std::vector<float> magnitudes(std::span<const float> x) {
  std::vector<float> out;
  for (const float value : x) out.push_back(std::abs(value));
  return out;
}

double sum_of(std::span<const float> x) { return std::accumulate(x.begin(), x.end(), 0.0); }

std::vector<std::size_t> top_keys(std::span<const float> x) {
  std::vector<std::size_t> keys(x.size());
  std::iota(keys.begin(), keys.end(), std::size_t{0});
  const std::size_t most = std::min(kTopKeys, keys.size());
  std::partial_sort(keys.begin(), keys.begin() + static_cast<std::ptrdiff_t>(most), keys.end(),
                    [&](std::size_t a, std::size_t b) { return x[a] > x[b] || (x[a] == x[b] && a < b); });
  keys.resize(most);
  std::erase_if(keys, [&](std::size_t key) { return x[key] == 0.0f; });
  std::sort(keys.begin(), keys.end());
  return keys;
}

// What rows of two maps differ by, added up.
struct Differences {
  double divergence = 0.0, agreement = 0.0, rows = 0.0;

  void add(std::span<const float> exact, std::span<const float> other) {
    const double all = sum_of(exact), of_other = sum_of(other);
    if (!(all > 0.0) || !std::isfinite(of_other)) return;
    for (std::size_t j = 0; j < exact.size(); ++j) {
      const double p = static_cast<double>(exact[j]) / all;
      const double m = of_other > 0.0 ? static_cast<double>(other[j]) / of_other : 0.0;
      if (p > 0.0) divergence += p * std::log(p / std::max(m, kLeastShare));
    }
    const std::vector<std::size_t> wanted = top_keys(exact), had = top_keys(other);
    std::vector<std::size_t> both;
    std::set_intersection(wanted.begin(), wanted.end(), had.begin(), had.end(), std::back_inserter(both));
    agreement += static_cast<double>(both.size()) / static_cast<double>(std::max<std::size_t>(1, wanted.size()));
    rows += 1.0;
  }
};

Differences compare(Context& host, const inspection::SequenceCall& exact, const inspection::SequenceCall& other) {
  Differences all;
  const auto of_exact = inspection::source_of(host, exact), of_other = inspection::source_of(host, other);
  if (of_other == nullptr) fail(ErrorCode::unsupported, map_note(other.mechanism).text);
  const MapShape shape = exact.shape();
  kCompared.each(shape.n_q, [&](std::int64_t begin, std::int64_t end) {
    inspection::SampledRows p(shape, begin, end), m(shape, begin, end);
    of_exact->rows(host, {.begin = begin, .end = end}, p);
    of_other->rows(host, {.begin = begin, .end = end}, m);
    for (std::int64_t h = 0; h < shape.heads; ++h)
      for (std::int64_t i = 0; i < end - begin; ++i) all.add(p.weights(h, i), magnitudes(m.weights(h, i)));
  });
  return all;
}

struct Timed {
  std::vector<float> output;
  double seconds = INFINITY;
};

Timed timed(Context& host, const inspection::SequenceCall& call) {
  Timed out;
  for (int round = 0; round < 3; ++round) {
    Tape tape(host, {.record = false});
    const auto before = std::chrono::steady_clock::now();
    const Tensor output = attention(tape, call.q, call.k, call.v, call.mechanism, call.options).output.value();
    const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - before;
    out.seconds = std::min(out.seconds, taken.count());
    if (round == 0) out.output = output.to_vector<float>();
  }
  return out;
}

double distance(const std::vector<float>& a, const std::vector<float>& b) {
  double squares = 0.0, all = 0.0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    squares += (static_cast<double>(a[i]) - b[i]) * (static_cast<double>(a[i]) - b[i]);
    all += static_cast<double>(b[i]) * b[i];
  }
  return std::sqrt(squares / std::max(all, 1e-300));
}

// Turns q and k by their positions ahead of a mechanism that does not: it reads what softmax reads.
void rotate_ahead(Context& host, inspection::SequenceCall& call) {
  const MapShape shape = call.shape();
  Tape tape(host, {.record = false});
  const Call whole{
      tape, call.q, call.k, call.v, call.mechanism, call.options, {{0, 0, shape.n_q}}, {{0, 0, shape.n_k}}};
  const auto [q, k] = rotated(whole, whole.q, whole.k);
  call.q = q.value();
  call.k = k.value();
  call.options.rotary.reset();
  call.options.positions = {};
}

inspection::SequenceCall call_of(Context& host, const inspection::SequenceCall& like, const Mechanism& mechanism) {
  inspection::SequenceCall call = like;
  call.mechanism = mechanism;
  if (!mechanism.supports(Feature::scale)) call.options.scale.reset();
  if (call.options.rotary && !mechanism.supports(Feature::rotary)) rotate_ahead(host, call);
  if (mechanism.needs_input())
    fail(ErrorCode::unsupported, "it also reads the input of its layer, which is not given here");
  call.options.weights = make_weights(host, mechanism,
                                      {.heads = like.q.dim(2),
                                       .kv_heads = like.k.dim(2),
                                       .d_k = like.q.dim(3),
                                       .d_v = like.v.dim(3),
                                       .max_length = like.k.dim(1)},
                                      like.q.dtype());
  for (Var& weight : call.options.weights) weight = Var(weight.value());
  return call;
}

ApproximationRow compare_one(Context& host, const inspection::SequenceCall& exact, const Timed& reference,
                             const Mechanism& mechanism) {
  ApproximationRow row;
  row.mechanism = mechanism.text();
  row.length = exact.q.dim(1);
  row.softmax_seconds = reference.seconds;
  row.output_error = row.divergence = row.top_agreement = row.seconds = NAN;
  try {
    const inspection::SequenceCall call = call_of(host, exact, mechanism);
    const Timed own = timed(host, call);
    row.seconds = own.seconds;
    row.output_error = distance(own.output, reference.output);
    const Differences differences = compare(host, exact, call);
    row.divergence = differences.divergence / differences.rows;
    row.top_agreement = differences.agreement / differences.rows;
  } catch (const Error& error) {  // of this mechanism alone: the others go on
    if (error.code() == ErrorCode::interrupted) throw;
    row.reason = error.message();
  }
  return row;
}

std::vector<ApproximationRow> compare_all(Context& host, const inspection::SequenceCall& exact,
                                          std::span<const Mechanism> mechanisms) {
  const Timed reference = timed(host, exact);
  std::vector<ApproximationRow> rows;
  for (const Mechanism& mechanism : mechanisms) rows.push_back(compare_one(host, exact, reference, mechanism));
  return rows;
}

std::vector<Mechanism> parsed(std::span<const std::string> texts) {
  std::vector<Mechanism> out;
  for (const std::string& text : texts) out.push_back(Mechanism::parse(text));
  return out;
}

// The first tokens of a call that has nothing by position but what can be computed.
bool can_be_shorter(const AttentionOptions& options) {
  return !options.bias.defined() && !options.mask.defined() && !options.diagonal_bias.defined() &&
         !options.initial_state.defined();
}

inspection::SequenceCall first_tokens(const inspection::SequenceCall& call, std::int64_t length) {
  inspection::SequenceCall out = call;
  for (Tensor* x : {&out.q, &out.k, &out.v, &out.options.positions})
    if (x->defined()) *x = x->slice(1, 0, length);
  return out;
}

// The calls of a model, as softmax would make them.
class Calls final : public AttentionWatch {
 public:
  struct Seen {
    std::string place;
    inspection::SequenceCall call;
  };
  explicit Calls(const Context& host) : host_(host) {}

  Var on_attention(const Call& call, const Var& output) override {
    seen.push_back({call.tape.path(call.tape.place()), inspection::sequence_of(host_, call, 0)});
    AttentionOptions& options = seen.back().call.options;
    seen.back().call.mechanism = Mechanism("softmax");
    options.weights.clear();
    options.input = {};
    return output;
  }

  std::vector<Seen> seen;

 private:
  const Context& host_;
};

}  // namespace

std::vector<ApproximationRow> approximation(Context& context, const Tensor& q, const Tensor& k, const Tensor& v,
                                            std::span<const std::string> mechanisms,
                                            std::span<const std::int64_t> lengths, bool causal) {
  Context host = inspection::host_context(context);
  const std::vector<Mechanism> wanted = parsed(mechanisms);
  std::vector<ApproximationRow> rows;
  for (const std::int64_t length : lengths) {
    if (length < 1 || length > std::min(q.dim(1), k.dim(1)))
      fail(ErrorCode::usage, "length " + std::to_string(length) + " of " + std::to_string(q.dim(1)) + " tokens",
           "lengths", "1 to " + std::to_string(std::min(q.dim(1), k.dim(1))));
    const auto first = [&](const Tensor& x) { return x.slice(0, 0, 1).slice(1, 0, length); };
    const inspection::SequenceCall exact = inspection::single_sequence(
        host, inspection::AttentionArguments{first(q), first(k), first(v), Mechanism("softmax"), {.causal = causal}});
    std::ranges::move(compare_all(host, exact, wanted), std::back_inserter(rows));
  }
  return rows;
}

std::vector<LayerApproximation> approximation(Context& context, const Model& model, const Batch& batch,
                                              std::span<const std::string> mechanisms,
                                              std::span<const std::int64_t> lengths) {
  Context host = inspection::host_context(context);
  const std::vector<Mechanism> wanted = parsed(mechanisms);
  std::vector<Calls::Seen> seen;
  {
    Calls calls(host);
    Tape tape(context, {.record = false});
    model.forward(tape, batch);
    seen = std::move(calls.seen);
  }
  std::vector<LayerApproximation> out;
  for (std::size_t layer = 0; layer < seen.size(); ++layer) {
    const auto& [place, call] = seen[layer];
    const std::int64_t n = call.q.dim(1);
    const bool square = n == call.k.dim(1) && can_be_shorter(call.options);
    std::vector<std::int64_t> of_layer;
    for (const std::int64_t length : lengths)
      if (length > 0 && length < n && square) of_layer.push_back(length);
    of_layer.push_back(n);
    for (const std::int64_t length : of_layer)
      for (ApproximationRow& row : compare_all(host, length < n ? first_tokens(call, length) : call, wanted))
        out.push_back({static_cast<std::int64_t>(layer), place, std::move(row)});
  }
  return out;
}

}  // namespace fovea
