#include "reference/row_rules.h"

#include <algorithm>
#include <cmath>
#include <functional>

#include "reference/attention.h"

namespace fovea::reference {
namespace {

// The scores that count, the largest first.
Row sorted(const Row& scores) {
  Row out;
  for (double s : scores)
    if (s != -kInfinity) out.push_back(s);
  std::sort(out.begin(), out.end(), std::greater<>());
  return out;
}

}  // namespace

Row softmax_weights(const Row& scores) {
  Row weights(scores.size(), 0.0);
  const Row order = sorted(scores);
  double sum = 0.0;
  for (double s : order) sum += std::exp(s - order.front());
  for (std::size_t j = 0; j < scores.size(); ++j)
    if (scores[j] != -kInfinity) weights[j] = std::exp(scores[j] - order.front()) / sum;
  return weights;
}

Row top_k_weights(const Row& scores, std::int64_t k) {
  Row kept(scores.size(), -kInfinity), left = scores;
  for (std::int64_t i = 0; i < k; ++i) {
    const std::int64_t next = first_largest(left);
    if (next < 0) break;
    const auto j = static_cast<std::size_t>(next);
    kept[j] = scores[j];
    left[j] = -kInfinity;
  }
  return softmax_weights(kept);
}

Row sparsemax_weights(const Row& scores) {
  const Row order = sorted(scores);
  double sum = 0.0, tau = kInfinity, count = 0.0;  // of what lies below the largest: sums of scores would lose digits
  for (double z : order) {
    const double x = z - order.front();
    sum += x;
    count += 1.0;
    if (1.0 + count * x > sum) tau = (sum - 1.0) / count;
  }
  Row weights;
  for (double s : scores) weights.push_back(order.empty() ? 0.0 : std::max((s - order.front()) - tau, 0.0));
  return weights;
}

Row entmax15_weights(const Row& scores) {
  const Row order = sorted(scores);
  double sum = 0.0, squares = 0.0, count = 0.0, tau = kInfinity;
  for (double z : order) {
    const double x = (z - order.front()) / 2.0;
    sum += x;
    squares += x * x;
    count += 1.0;
    const double mean = sum / count, spread = (1.0 - (squares - sum * mean)) / count;
    const double candidate = mean - std::sqrt(std::max(spread, 0.0));
    if (candidate <= x) tau = candidate;
  }
  Row weights;
  for (double s : scores) {
    const double root = order.empty() ? 0.0 : std::max((s - order.front()) / 2.0 - tau, 0.0);
    weights.push_back(root * root);
  }
  return weights;
}

Row margin_weights(const Row& scores, double margin, std::int64_t target) {
  Row charged = scores;
  if (target >= 0) charged[static_cast<std::size_t>(target)] -= margin;
  return softmax_weights(charged);
}

std::int64_t first_largest(const Row& scores) {
  const auto largest = std::max_element(scores.begin(), scores.end());
  return largest == scores.end() || *largest == -kInfinity ? -1 : largest - scores.begin();
}

Row self_adjust_weights(const Row& scores) {
  Row weights = softmax_weights(scores);
  const Row order = sorted(scores);
  if (order.empty()) return weights;
  const double low = std::min(order.back(), 0.0), high = std::max(order.front(), 0.0);
  for (std::size_t j = 0; j < scores.size(); ++j)
    weights[j] = weights[j] == 0.0 || high == low ? 0.0 : weights[j] * (scores[j] - low) / (high - low);
  return weights;
}

}  // namespace fovea::reference
