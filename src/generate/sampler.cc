#include "generate/sampler.h"

#include <algorithm>
#include <cmath>

#include "core/rng.h"
#include "policy/math.h"

namespace fovea {
namespace {

struct Candidate {
  float logit;
  std::int32_t id;
  float weight = 0.0f;  // its probability, not yet divided by their sum

  bool operator<(const Candidate& other) const {  // the more likely first
    return logit != other.logit ? logit > other.logit : id < other.id;
  }
};

double sum_of(std::span<const Candidate> candidates) {
  double sum = 0.0;
  for (const Candidate& c : candidates) sum += c.weight;
  return sum;
}

void keep_top_k(std::vector<Candidate>& candidates, std::int64_t k) {
  if (k <= 0 || k >= std::ssize(candidates)) return;
  std::nth_element(candidates.begin(), candidates.begin() + k - 1, candidates.end());
  candidates.resize(static_cast<std::size_t>(k));
}

// The fewest of the most likely whose weights reach p of the sum. They are found by halves, as in a selection, so that
// the others are never sorted.
void keep_top_p(std::vector<Candidate>& candidates, double p) {
  if (p >= 1.0) return;
  double missing = p * sum_of(candidates);
  auto low = candidates.begin(), high = candidates.end();  // all before low are kept, the last one kept is before high
  while (high - low > 1) {
    const auto middle = low + (high - low) / 2;
    std::nth_element(low, middle, high);
    const double above = sum_of({low, middle});
    if (above >= missing) {
      high = middle;
    } else {
      missing -= above;
      low = middle;
    }
  }
  candidates.erase(high, candidates.end());
}

}  // namespace

void penalize(std::span<float> logits, std::span<const std::int32_t> seen, double penalty) {
  if (penalty == 1.0) return;
  std::vector<std::int32_t> ids(seen.begin(), seen.end());
  std::sort(ids.begin(), ids.end());
  ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
  const auto factor = static_cast<float>(penalty);
  for (const std::int32_t id : ids) {
    if (static_cast<std::size_t>(id) >= logits.size()) continue;  // of another vocabulary: the encoder's
    float& logit = logits[static_cast<std::size_t>(id)];
    logit = logit > 0.0f ? logit / factor : logit * factor;
  }
}

void check_logits(std::span<const float> logits) {
  const bool numbers = std::none_of(logits.begin(), logits.end(), [](float x) { return std::isnan(x); });
  if (!numbers || !std::isfinite(*std::max_element(logits.begin(), logits.end())))
    fail(ErrorCode::diverged, "the model's output is not a number", "logits", "weights that are finite: fovea eval");
}

std::int32_t choose(std::span<const float> logits, const GenerateOptions& options, const Draw& draw) {
  const float top = *std::max_element(logits.begin(), logits.end());
  if (options.temperature == 0.0)
    return static_cast<std::int32_t>(std::find(logits.begin(), logits.end(), top) - logits.begin());
  std::vector<Candidate> candidates(logits.size());
  for (std::size_t i = 0; i < logits.size(); ++i) candidates[i] = {logits[i], static_cast<std::int32_t>(i)};
  keep_top_k(candidates, options.top_k);
  const auto inverse = static_cast<float>(1.0 / options.temperature);
  for (Candidate& c : candidates) c.weight = math::exp((c.logit - top) * inverse);
  keep_top_p(candidates, options.top_p);
  if (candidates.size() < logits.size())
    std::sort(candidates.begin(), candidates.end(), [](const auto& a, const auto& b) { return a.id < b.id; });

  const Philox words =
      philox(draw.seed, static_cast<std::uint64_t>(draw.step), static_cast<std::uint64_t>(draw.sequence));
  const double uniform = static_cast<double>((std::uint64_t{words.word[0]} << 21) ^ (words.word[1] >> 11)) * 0x1p-53;
  double left = uniform * sum_of(candidates);
  std::int32_t chosen = candidates.front().id;
  for (const Candidate& c : candidates) {
    if (c.weight > 0.0f) chosen = c.id;  // rounding may leave a little at the end
    left -= c.weight;
    if (left < 0.0) break;
  }
  return chosen;
}

}  // namespace fovea
