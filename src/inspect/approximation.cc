#include <algorithm>
#include <chrono>
#include <cmath>
#include <numeric>

#include "fovea/inspect.h"
#include "inspect/layer.h"
#include "inspect/row_math.h"
#include "inspect/source.h"

namespace fovea {
namespace {

using inspection::MapRow;
using inspection::MapShape;
using inspection::size;

constexpr std::int64_t kBlocks = 4, kBlockRows = 64;  // of rows whose maps are compared, evenly along the sequence
constexpr std::size_t kTopKeys = 8;
constexpr double kLeastShare = 1e-12;

// Shares of some rows of all heads.
class SomeRows final : public inspection::MapSink {
 public:
  SomeRows(const MapShape& shape, std::int64_t begin, std::int64_t end)
      : shape_(shape), begin_(begin), end_(end), shares_(size(shape.heads * (end - begin) * shape.n_k), 0.0f) {}

  void take(const MapRow& row, std::int64_t) override {
    if (row.row < begin_ || row.row >= end_) return;
    const std::span<float> to = of(row.head, row.row - begin_);
    const float* w = row.weights;
    for (const inspection::KeyRun& run : row.runs)
      for (std::int64_t j = 0; j < run.count; ++j, ++w)
        to[size(row.first_key + (run.begin + j) * row.step)] +=
            static_cast<float>(std::abs(static_cast<double>(*w) * row.factor));
  }
  std::span<float> of(std::int64_t head, std::int64_t row) {
    return std::span(shares_).subspan(size((head * (end_ - begin_) + row) * shape_.n_k), size(shape_.n_k));
  }

 private:
  MapShape shape_;
  std::int64_t begin_, end_;
  std::vector<float> shares_;
};

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
  const std::int64_t blocks = std::min(kBlocks, (shape.n_q + kBlockRows - 1) / kBlockRows);
  for (std::int64_t block = 0; block < blocks; ++block) {
    const std::int64_t begin = block * shape.n_q / blocks, end = std::min(shape.n_q, begin + kBlockRows);
    SomeRows p(shape, begin, end), m(shape, begin, end);
    of_exact->rows(host, {.begin = begin, .end = end}, p);
    of_other->rows(host, {.begin = begin, .end = end}, m);
    for (std::int64_t h = 0; h < shape.heads; ++h)
      for (std::int64_t i = 0; i < end - begin; ++i) all.add(p.of(h, i), m.of(h, i));
  }
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

inspection::SequenceCall call_of(Context& host, const inspection::SequenceCall& like, const Mechanism& mechanism) {
  inspection::SequenceCall call = like;
  call.mechanism = mechanism;
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

}  // namespace

std::vector<ApproximationRow> approximation(Context& context, const Tensor& q, const Tensor& k, const Tensor& v,
                                            std::span<const std::string> mechanisms,
                                            std::span<const std::int64_t> lengths, bool causal) {
  Context host = inspection::host_context(context);
  const Mechanism softmax("softmax");
  std::vector<Mechanism> parsed;
  for (const std::string& text : mechanisms) parsed.push_back(Mechanism::parse(text));
  std::vector<ApproximationRow> rows;
  for (const std::int64_t length : lengths) {
    if (length < 1 || length > std::min(q.dim(1), k.dim(1)))
      fail(ErrorCode::usage, "length " + std::to_string(length) + " of " + std::to_string(q.dim(1)) + " tokens",
           "lengths", "1 to " + std::to_string(std::min(q.dim(1), k.dim(1))));
    const auto first = [&](const Tensor& x) { return x.slice(0, 0, 1).slice(1, 0, length); };
    const inspection::SequenceCall exact = inspection::single_sequence(
        host, inspection::AttentionArguments{first(q), first(k), first(v), softmax, {.causal = causal}});
    const Timed reference = timed(host, exact);
    for (const Mechanism& mechanism : parsed) {
      ApproximationRow row;
      row.mechanism = mechanism.text();
      row.length = length;
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
        row.reason = error.what();
      }
      rows.push_back(std::move(row));
    }
  }
  return rows;
}

}  // namespace fovea
