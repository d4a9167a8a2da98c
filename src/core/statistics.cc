#include "core/statistics.h"

#include <array>
#include <cmath>

namespace fovea {

double t_quantile(std::int64_t degrees) {
  constexpr std::array kFew{12.7062, 4.3027, 3.1824, 2.7764, 2.5706, 2.4469, 2.3646, 2.3060, 2.2622, 2.2281};
  if (degrees < 1) return kUnknownMargin;
  if (degrees <= std::ssize(kFew)) return kFew[static_cast<std::size_t>(degrees) - 1];
  // Cornish and Fisher's expansion around the normal distribution: within 2e-4 from here on.
  constexpr double kZ = 1.959964, kZ3 = kZ * kZ * kZ, kZ5 = kZ3 * kZ * kZ, kZ7 = kZ5 * kZ * kZ;
  const auto v = static_cast<double>(degrees);
  return kZ + (kZ3 + kZ) / (4.0 * v) + (5.0 * kZ5 + 16.0 * kZ3 + 3.0 * kZ) / (96.0 * v * v) +
         (3.0 * kZ7 + 19.0 * kZ5 + 17.0 * kZ3 - 15.0 * kZ) / (384.0 * v * v * v);
}

double Sample::margin() const {
  if (count < 2) return kUnknownMargin;
  const auto n = static_cast<double>(count);
  return t_quantile(static_cast<std::int64_t>(count) - 1) * deviation / std::sqrt(n);
}

double pooled_margin(std::span<const Sample> samples, std::size_t count) {
  double squares = 0.0;
  std::int64_t degrees = 0;
  for (const Sample& sample : samples) {
    if (sample.count < 2) continue;
    const auto own = static_cast<std::int64_t>(sample.count) - 1;
    squares += static_cast<double>(own) * sample.deviation * sample.deviation;
    degrees += own;
  }
  if (degrees == 0 || count == 0) return kUnknownMargin;
  return t_quantile(degrees) * std::sqrt(squares / static_cast<double>(degrees) / static_cast<double>(count));
}

Sample describe(std::span<const double> numbers) {
  Sample sample{.count = numbers.size()};
  if (numbers.empty()) return sample;
  const auto n = static_cast<double>(numbers.size());
  double sum = 0.0, squares = 0.0;
  for (const double number : numbers) sum += number;
  sample.mean = sum / n;
  for (const double number : numbers) squares += (number - sample.mean) * (number - sample.mean);
  if (numbers.size() > 1) sample.deviation = std::sqrt(squares / (n - 1.0));
  return sample;
}

double share_margin(double share, std::int64_t cases) {
  if (cases <= 0) return 0.0;
  constexpr double kZ = 1.96;
  const auto n = static_cast<double>(cases);
  const double part = kZ * kZ / n;
  return kZ / (1.0 + part) * std::sqrt(share * (1.0 - share) / n + part / (4.0 * n));
}

double correlation_margin(double correlation, std::int64_t cases) {
  if (cases < 4 || !(std::abs(correlation) < 1.0)) return 0.0;
  constexpr double kZ = 1.96;
  const double half = kZ / std::sqrt(static_cast<double>(cases - 3)), middle = std::atanh(correlation);
  return 0.5 * (std::tanh(middle + half) - std::tanh(middle - half));
}

bool apart(double a, double margin_of_a, double b, double margin_of_b) {
  return std::abs(a - b) > std::hypot(margin_of_a, margin_of_b);
}

}  // namespace fovea
