#include <algorithm>
#include <cmath>
#include <numbers>

#include "fovea/optim.h"

namespace fovea {
namespace {

constexpr double kStartDivisor = 25.0;      // one-cycle starts at peak / 25
constexpr double kEndDivisor = 1e4;         // and ends at its start / 10000
constexpr double kInverseSqrtStart = 1e-7;  // the published script; 0 would waste the first step

double between(double from, double to, double share) { return from + (to - from) * std::clamp(share, 0.0, 1.0); }

}  // namespace

double Schedule::rate(std::int64_t step, double total) const {
  const auto t = static_cast<double>(step), w = static_cast<double>(warmup);
  const double left = std::max(total - w, 1.0);  // steps after the warm-up
  const double low = std::clamp(floor, 0.0, peak);
  switch (kind) {
    case ScheduleKind::one_cycle: {
      const double start = peak / kStartDivisor;
      if (t <= w) return w <= 1.0 ? peak : between(start, peak, (t - 1.0) / (w - 1.0));
      return between(peak, start / kEndDivisor, (t - w) / left);
    }
    case ScheduleKind::inverse_sqrt:
      if (t <= w) return between(std::min(kInverseSqrtStart, peak), peak, t / w);
      return peak * std::sqrt(std::max(w, 1.0) / t);
    case ScheduleKind::cosine:
      if (t <= w) return peak * t / w;
      return between(low, peak, 0.5 * (1.0 + std::cos(std::numbers::pi * std::min((t - w) / left, 1.0))));
    case ScheduleKind::polynomial:
      if (t <= w) return peak * t / w;
      return between(low, peak, std::pow(std::max(1.0 - (t - w) / left, 0.0), power));
    case ScheduleKind::halving:
      if (t <= w) return peak * t / w;
      return peak * std::exp2(-std::floor((t - w - 1.0) / static_cast<double>(std::max<std::int64_t>(period, 1))));
    case ScheduleKind::constant: return t < w ? peak * t / w : peak;
  }
  fail(ErrorCode::internal, "a schedule of no kind");
}

}  // namespace fovea
