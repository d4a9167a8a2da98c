#include "inspect/gradient_source.h"

#include <algorithm>
#include <vector>

#include "core/parallel.h"
#include "inspect/row_math.h"
#include "mechanisms/watch.h"

namespace fovea::inspection {
namespace {

// Keeps the last value that an engine gave.
class LastOutput final : public AttentionWatch {
 public:
  void on_tiled(const TiledSeen& seen) override { output = seen.output; }
  void on_scan(const ScanSeen& seen) override { output = seen.output; }

  Var output;
};

// sum_i seed_i o_i differentiated by v: (n_k, kv_heads, d_v).
std::vector<float> pull_back(Context& context, const SequenceCall& call, bool inside, const std::vector<float>& seed) {
  Tape tape(context);
  const Var v = Var::leaf(call.v);
  const LastOutput seen;
  Var output = attention(tape, call.q, call.k, v, call.mechanism, call.options).output;
  if (inside) output = seen.output;
  const Shape shape{1, call.q.dim(1), call.q.dim(2), call.v.dim(3)};
  if (output.shape() != shape || !output.needs_grad())
    fail(ErrorCode::unsupported, "the values of this call do not reach its output", call.mechanism.text());
  tape.backward(output, Tensor::from<float>(context, shape, seed).to(context, output.dtype()));
  return v.grad().to_vector<float>();
}

// The mechanism without what its gradient leaves out by definition.
SequenceCall whole_gradient(SequenceCall call) {
  const Mechanism& m = call.mechanism;
  if (m.kind().stops_gradient == nullptr || !m.kind().stops_gradient(m)) return call;
  std::vector<Mechanism::Setting> settings;
  for (const ParameterSpec& spec : m.parameters())
    settings.push_back({std::string(spec.name), spec.name == "stop" ? ParameterValue(false) : m.value(spec.name)});
  call.mechanism = Mechanism(m.name(), settings);
  return call;
}

constexpr std::int64_t kMostChannels = 512;                  // of the values that rows are read from
constexpr std::int64_t kMostValues = std::int64_t{4} << 20;  // numbers in them

// The call with wider values, so that a pass gives more rows, where no weight has a size of theirs. What they hold does
// not matter.
SequenceCall with_wide_values(SequenceCall call) {
  const auto [heads, n_q, n_k] = call.shape();
  const std::int64_t d = call.v.dim(3), most = kMostValues / std::max<std::int64_t>(1, heads * std::max(n_q, n_k));
  const std::int64_t wide = std::min(kMostChannels, std::min(most, n_q));
  if (wide <= d) return call;
  if (!takes_width(call.mechanism, call.q, call.v, wide)) return call;
  const std::vector<double> narrow = call.v.to_vector<double>();
  std::vector<double> values(size(call.v.numel() / d * wide));
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = narrow[i / size(wide) * size(d) + i % size(wide) % size(d)];
  const Context host({.threads = 1});
  call.v = Tensor::from<double>(host, {1, n_k, call.v.dim(2), wide}, values).to(host, call.v.dtype());
  return call;
}

// Hands out whole rows.
void give(MapSink& sink, std::int64_t head, std::int64_t i, std::int64_t share, std::vector<float>& weights) {
  const KeyRun all[] = {{0, std::ssize(weights)}};
  sink.take({.head = head, .row = i, .weights = weights.data(), .runs = all}, share);
}

}  // namespace

void GradientSource::rows(const Context& context, const tile::WantedRows& wanted, MapSink& sink) const {
  const SequenceCall call = with_wide_values(whole_gradient(call_));
  const auto [heads, n_q, n_k] = call.shape();
  const std::int64_t kv_heads = call.v.dim(2), d = call.v.dim(3), group = heads / kv_heads;
  Context own({.threads = context.threads(), .seed = context.seed()});
  const std::int64_t end = std::min(n_q, wanted.end);
  for (std::int64_t first = wanted.begin; first < end; first += d)
    for (std::int64_t member = 0; member < group; ++member) {  // of the query heads that share one of keys
      const std::int64_t count = std::min(d, end - first);
      const auto is_wanted = [&](std::int64_t h) { return wanted.head < 0 || wanted.head == h; };
      if (wanted.head >= 0 && wanted.head % group != member) continue;
      std::vector<float> seed(size(n_q * heads * d), 0.0f);
      for (std::int64_t c = 0; c < count; ++c)
        for (std::int64_t h = member; h < heads; h += group) seed[size(((first + c) * heads + h) * d + c)] = 1.0f;
      const std::vector<float> map = pull_back(own, call, inside_, seed);
      parallel_for(context, kv_heads, [&](std::int64_t kv) {
        const std::int64_t head = kv * group + member;
        if (!is_wanted(head)) return;
        std::vector<float> weights(size(n_k));
        for (std::int64_t c = 0; c < count; ++c) {
          for (std::int64_t j = 0; j < n_k; ++j)
            weights[size(j)] = static_cast<float>(factor_) * map[size((j * kv_heads + kv) * d + c)];
          give(sink, head, first + c, (first + c) / wanted.rows_per_share, weights);
        }
      });
    }
}

namespace {

// Calls use(head, weights) with one row of the map of every kv head's `member`-th query head: the mean over the
// channels of what the row's output changes by when all channels of a token's values do.
template <class Use>
void each_mean_row(Context& own, const SequenceCall& call, std::int64_t row, std::int64_t member, const Use& use) {
  const auto [heads, n_q, n_k] = call.shape();
  const std::int64_t kv_heads = call.v.dim(2), d = call.v.dim(3), group = heads / kv_heads;
  std::vector<float> seed(size(n_q * heads * d), 0.0f);
  for (std::int64_t h = member; h < heads; h += group)
    std::fill_n(seed.begin() + (row * heads + h) * d, d, 1.0f / static_cast<float>(d));
  const std::vector<float> map = pull_back(own, call, false, seed);
  std::vector<float> weights(size(n_k));
  for (std::int64_t kv = 0; kv < kv_heads; ++kv) {
    for (std::int64_t j = 0; j < n_k; ++j)
      weights[size(j)] = static_cast<float>(sum_signed(&map[size((j * kv_heads + kv) * d)], d));
    use(kv * group + member, weights);
  }
}

}  // namespace

void ToeplitzSource::rows(const Context& context, const tile::WantedRows& wanted, MapSink& sink) const {
  const auto [heads, n_q, n_k] = call_.shape();
  if (n_q == 0) return;
  Context own({.threads = context.threads(), .seed = context.seed()});
  // Of a head: element key - row + n_q - 1.
  std::vector<std::vector<float>> diagonals(size(heads), std::vector<float>(size(n_q + n_k - 1), 0.0f));
  const std::int64_t group = heads / call_.v.dim(2);
  for (const std::int64_t row : {std::int64_t{0}, n_q - 1})
    for (std::int64_t member = 0; member < group; ++member)
      each_mean_row(own, call_, row, member, [&](std::int64_t head, const std::vector<float>& weights) {
        std::copy(weights.begin(), weights.end(), diagonals[size(head)].begin() + (n_q - 1 - row));
      });
  parallel_for(context, heads, [&](std::int64_t head) {
    if (wanted.head >= 0 && wanted.head != head) return;
    const std::vector<float>& all = diagonals[size(head)];
    for (std::int64_t i = wanted.begin; i < std::min(n_q, wanted.end); ++i) {
      const auto first = all.begin() + (n_q - 1 - i);
      std::vector<float> weights(first, first + n_k);
      give(sink, head, i, i / wanted.rows_per_share, weights);
    }
  });
}

void ChannelMeanSource::rows(const Context& context, const tile::WantedRows& wanted, MapSink& sink) const {
  const SequenceCall call = whole_gradient(call_);
  const auto [heads, n_q, n_k] = call.shape();
  const std::int64_t group = heads / call.v.dim(2);
  Context own({.threads = context.threads(), .seed = context.seed()});
  for (std::int64_t row = wanted.begin; row < std::min(n_q, wanted.end); ++row)
    for (std::int64_t member = 0; member < group; ++member) {
      if (wanted.head >= 0 && wanted.head % group != member) continue;
      each_mean_row(own, call, row, member, [&](std::int64_t head, std::vector<float>& weights) {
        if (wanted.head < 0 || wanted.head == head) give(sink, head, row, row / wanted.rows_per_share, weights);
      });
    }
}

bool ChannelMeanSource::is_for(const Mechanism& mechanism) {
  return mechanism.name() == "compressive" && mechanism.choice("pool") != "mean";
}

}  // namespace fovea::inspection
