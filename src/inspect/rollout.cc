#include "inspect/rollout.h"

#include <cmath>

#include "fovea/ops.h"
#include "inspect/row_math.h"
#include "inspect/source.h"

namespace fovea::inspection {
namespace {

// Sums the shares of all heads: one share for each head keeps their order.
class HeadMean final : public MapSink {
 public:
  HeadMean(std::int64_t n, std::int64_t heads) : map(size(n * n), 0.0f), n_(n), heads_(heads) {}

  void take(const MapRow& row, std::int64_t) override {
    double sum = row.part ? 1.0 : row.row_sum;
    if (sum < 0.0) sum = sum_magnitudes(row.weights, row.keys()) * std::abs(row.factor);
    if (!std::isfinite(sum) || sum <= 0.0) return;
    const auto factor = static_cast<float>(std::abs(row.factor) / sum / static_cast<double>(heads_));
    const float* w = row.weights;
    for (const KeyRun& run : row.runs)
      for (std::int64_t j = 0; j < run.count; ++j, ++w)
        map[size(row.row * n_ + row.first_key + (run.begin + j) * row.step)] += std::abs(*w) * factor;
  }

  std::vector<float> map;

 private:
  std::int64_t n_, heads_;
};

}  // namespace

void Rollout::add(Context& host, const SequenceCall& call) {
  const MapShape shape = call.shape();
  const std::int64_t n = shape.n_q;
  if (n_ < 0) n_ = n;
  causal_ = causal_ && call.options.causal;
  const bool fits = !ended_ && n == n_ && n == shape.n_k && n <= most_ && n > 0;
  const auto source = fits ? source_of(host, call) : nullptr;
  if (source == nullptr) {
    ended_ = true;
    product_.clear();
    return;
  }
  HeadMean mean(n, shape.heads);
  for (std::int64_t h = 0; h < shape.heads; ++h) source->rows(host, {.head = h}, mean);  // in the order of the heads
  for (std::int64_t i = 0; i < n; ++i) {
    float* row = &mean.map[size(i * n)];
    row[i] += 1.0f;
    const auto factor = static_cast<float>(1.0 / sum_signed(row, n));
    for (std::int64_t j = 0; j < n; ++j) row[j] *= factor;
  }
  if (product_.empty()) {
    product_ = std::move(mean.map);
    return;
  }
  Tape tape(host, {.record = false});
  const auto matrix = [&](const std::vector<float>& x) { return Tensor::from<float>(host, {1, n, n}, x); };
  product_ = matmul(tape, matrix(mean.map), matrix(product_)).value().to_vector<float>();
}

}  // namespace fovea::inspection
