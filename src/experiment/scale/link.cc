#include "experiment/scale/link.h"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <cmath>
#include <span>
#include <utility>

#include "fovea/context.h"
#include "fovea/error.h"
#include "measure/rounds.h"
#include "measure/stopwatch.h"

namespace fovea {
namespace {

using NamedUnit = std::pair<std::string_view, double>;

[[noreturn]] void refuse(const std::string& text) {
  fail(ErrorCode::usage, fmt::format("\"{}\" is no link: a bandwidth and a latency", text), "--link",
       "--link 25GB/s,5us");
}

// "25GB/s" with its units; nothing when it is none of them.
double number_with(std::string_view part, std::span<const NamedUnit> units, const std::string& all) {
  double value = 0.0;
  const auto [end, error] = std::from_chars(part.data(), part.data() + part.size(), value);
  if (error != std::errc() || !std::isfinite(value)) refuse(all);
  const std::string_view unit(end, static_cast<std::size_t>(part.data() + part.size() - end));
  for (const auto& [name, factor] : units)
    if (unit == name) return value * factor;
  refuse(all);
}

// Median seconds of an all-reduce of so many f32.
double all_reduce_time(const dist::Group& ranks, const Context& context, std::int64_t numbers) {
  constexpr int kRuns = 9;
  const Tensor t = Tensor::zeros(context, {numbers}, DType::f32);
  std::vector<double> seconds;
  for (int i = 0; i < kRuns; ++i) {
    ranks.barrier();
    const Stopwatch watch;
    ranks.all_reduce(t);
    seconds.push_back(watch.seconds());
  }
  return ranks.all_gather(std::array{median(std::move(seconds))}).front();  // the same on all
}

}  // namespace

double RankLink::all_reduce_seconds(double ranks, double bytes) const {
  if (ranks <= 1.0) return 0.0;
  return seconds(2.0 * (ranks - 1.0), 2.0 * (ranks - 1.0) / ranks * bytes);
}

std::string RankLink::text() const {
  return fmt::format("{:.3g} GB/s, {:.3g} us", 1e-9 * bytes_per_second, 1e6 * latency);
}

RankLink RankLink::parse(const std::string& text) {
  static constexpr std::array<NamedUnit, 4> kRates{{{"GB/s", 1e9}, {"MB/s", 1e6}, {"Gbit/s", 125e6}, {"TB/s", 1e12}}};
  static constexpr std::array<NamedUnit, 4> kTimes{{{"us", 1e-6}, {"ms", 1e-3}, {"ns", 1e-9}, {"s", 1.0}}};
  const std::size_t comma = text.find(',');
  if (comma == std::string::npos) refuse(text);
  const std::string_view all(text);
  const RankLink link{number_with(all.substr(0, comma), kRates, text),
                      number_with(all.substr(comma + 1), kTimes, text)};
  if (link.bytes_per_second <= 0.0 || link.latency < 0.0) refuse(text);
  return link;
}

RankLink RankLink::measure(const dist::Group& ranks) {
  constexpr std::int64_t kFew = 64, kMany = std::int64_t{1} << 22;
  const Context context({.threads = 1});
  const double few = all_reduce_time(ranks, context, kFew), many = all_reduce_time(ranks, context, kMany);
  const double others = ranks.size() - 1.0;
  const double share = 2.0 * others / ranks.size() * static_cast<double>(sizeof(float));
  const double slope = std::max(1e-15, (many - few) / (share * static_cast<double>(kMany - kFew)));
  return {1.0 / slope, few / (2.0 * others)};
}

}  // namespace fovea
