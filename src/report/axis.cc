#include "report/axis.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace fovea {
namespace {

constexpr int kTicks = 6;  // about so many

// 1, 2 or 5 times a power of ten: the step that gives about kTicks of them.
double nice_step(double span) {
  const double raw = span / kTicks, power = std::pow(10, std::floor(std::log10(raw)));
  for (const double factor : {1.0, 2.0, 5.0})
    if (raw <= factor * power * 1.0000001) return factor * power;
  return 10 * power;
}

// With as many decimals as the step needs, so that 0.2, 0.4 and 1.0 line up; thousands as 10k from 10000 on.
std::string linear_label(double value, double step) {
  const double shown = std::abs(value) < step * 1e-6 ? 0 : value;
  if (step >= 1000 && std::abs(shown) >= 1e6) return fmt::format("{:g}M", shown / 1e6);
  if (step >= 500 && std::abs(shown) >= 1e4) return fmt::format("{:g}k", shown / 1e3);
  if (step < 1e-4) return fmt::format("{:g}", shown);
  return fmt::format("{:.{}f}", shown, std::max(0, -static_cast<int>(std::floor(std::log10(step) + 1e-9))));
}

std::string log_label(double value) {
  if (value >= 1e9 || value < 0.9e-3) return fmt::format("{:.0e}", value);
  if (value >= 1e6) return fmt::format("{:g}M", value / 1e6);
  if (value >= 1e4) return fmt::format("{:g}k", value / 1e3);
  return fmt::format("{:g}", value);
}

}  // namespace

Scale scale_for(const std::vector<double>& values) {
  double low = std::numeric_limits<double>::infinity(), high = 0;
  for (const double value : values) {
    if (!std::isfinite(value)) continue;
    low = std::min(low, value);
    high = std::max(high, value);
  }
  return low > 0 && high >= 10 * low ? Scale::log : Scale::linear;
}

AxisMap::AxisMap(const Axis& axis, const std::vector<double>& values, Ends ends) : scale_(axis.scale) {
  double low = std::numeric_limits<double>::infinity(), high = -low;
  for (const std::vector<double>* list : {&values, &axis.include})
    for (const double value : *list) {
      const double warped = warp(value);
      if (!std::isfinite(warped)) continue;
      low = std::min(low, warped);
      high = std::max(high, warped);
    }
  if (low > high) low = 0, high = 1;
  if (high - low < 1e-9 * std::max(1.0, std::abs(high))) low -= 0.5, high += 0.5;
  low_ = low;
  high_ = high;
  if (scale_ == Scale::linear)
    make_linear_ticks(ends);
  else if (scale_ == Scale::log)
    make_log_ticks();
  else
    make_log2_ticks();
}

bool AxisMap::shows(double value) const { return std::isfinite(warp(value)); }
double AxisMap::position(double value) const { return (warp(value) - low_) / (high_ - low_); }

double AxisMap::value(double position) const {
  const double warped = low_ + position * (high_ - low_);
  return scale_ == Scale::linear ? warped : scale_ == Scale::log ? std::pow(10, warped) : std::exp2(warped);
}

double AxisMap::warp(double value) const {
  if (scale_ == Scale::linear) return value;
  if (!(value > 0)) return std::numeric_limits<double>::quiet_NaN();
  return scale_ == Scale::log ? std::log10(value) : std::log2(value);
}

void AxisMap::make_linear_ticks(Ends ends) {
  const double step = nice_step(high_ - low_);
  if (low_ > 0 && low_ < 0.2 * high_) low_ = 0;  // steps and seconds count from 0
  if (ends == Ends::round) {
    low_ = std::floor(low_ / step + 1e-9) * step;
    high_ = std::ceil(high_ / step - 1e-9) * step;
  }
  const double first = std::ceil(low_ / step - 1e-9) * step;
  const int count = static_cast<int>(std::floor((high_ - first) / step + 1e-9));
  for (int i = 0; i <= count; ++i) ticks_.push_back({first + i * step, linear_label(first + i * step, step)});
}

// Numbers at the powers of ten, and at 2 and 5 times them when there are few; lines between them while they do not
// crowd.
void AxisMap::make_log_ticks() {
  const double margin = 0.03 * (high_ - low_);
  low_ -= margin;
  high_ += margin;
  const int first = static_cast<int>(std::floor(low_)), last = static_cast<int>(std::ceil(high_));
  const bool few = high_ - low_<2.2, crowded = high_ - low_> 3.5;
  const int every = 1 + (last - first) / 9;  // powers
  for (int power = first; power <= last; power += every)
    for (int digit = 1; digit <= (crowded ? 1 : 9); ++digit) {
      const double value = digit * std::pow(10, power);
      if (std::log10(value) < low_ || std::log10(value) > high_) continue;
      const bool labelled = digit == 1 || (few && (digit == 2 || digit == 5));
      ticks_.push_back({value, labelled ? log_label(value) : ""});
    }
}

void AxisMap::make_log2_ticks() {
  const double margin = 0.03 * (high_ - low_);
  low_ -= margin;
  high_ += margin;
  const int first = static_cast<int>(std::ceil(low_ - 1e-9)), last = static_cast<int>(std::floor(high_ + 1e-9));
  const int every = 1 + (last - first) / 9;
  for (int power = first; power <= last; ++power) {
    const bool labelled = (power - first) % every == 0;
    if (labelled || every <= 4)
      ticks_.push_back({std::exp2(power), labelled ? fmt::format("{:g}", std::exp2(power)) : ""});
  }
}

}  // namespace fovea
