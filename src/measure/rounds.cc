#include "measure/rounds.h"

#include <algorithm>

#include "gemm/rate.h"

namespace fovea {
namespace {

// Short runs are repeated inside a round until they add up to something a clock and a scheduler do not disturb.
constexpr double kEnoughSeconds = 0.05;
constexpr std::size_t kMostRuns = 9;

double run_once(const TimedCase& timed) {
  std::vector<double> seconds;
  double total = 0.0;
  while (seconds.empty() || (total < kEnoughSeconds && seconds.size() < kMostRuns)) {
    seconds.push_back(timed.run());
    total += seconds.back();
  }
  return median(std::move(seconds));
}

struct Round {
  double anchor = 0.0;   // mean of the sgemm rates before and after
  double slowest = 0.0;  // the lower of the two
  double fastest = 0.0;
  std::vector<double> seconds;  // of each case
};

double quantile(const std::vector<double>& sorted, double q) {
  const double at = q * static_cast<double>(sorted.size() - 1);
  const auto low = static_cast<std::size_t>(at);
  const std::size_t high = std::min(low + 1, sorted.size() - 1);
  return sorted[low] + (at - static_cast<double>(low)) * (sorted[high] - sorted[low]);
}

Timing summarize(const TimedCase& timed, std::size_t index, const std::vector<Round>& rounds) {
  std::vector<double> seconds, shares;
  for (const Round& round : rounds) {
    seconds.push_back(round.seconds[index]);
    shares.push_back(timed.flops / round.seconds[index] / round.anchor);
  }
  std::sort(seconds.begin(), seconds.end());
  Timing timing;
  timing.name = timed.name;
  timing.seconds = quantile(seconds, 0.5);
  timing.spread = 0.5 * (quantile(seconds, 0.75) - quantile(seconds, 0.25));
  timing.rate = timed.flops / timing.seconds;
  timing.share = median(std::move(shares));
  return timing;
}

// Runs rounds and keeps the good ones.
class Rounds {
 public:
  Rounds(const Context& context, std::span<const TimedCase> cases, const RoundOptions& options)
      : context_(context), cases_(cases), options_(options), expected_(cases.size() * (1 + options.rounds)) {}

  RoundReport run() {
    one_round();  // brings caches, plans and the clock of the machine up; not counted
    int extra = options_.extra_rounds;
    while (static_cast<int>(kept_.size()) < options_.rounds) {
      kept_.push_back(one_round());
      best_ = std::max(best_, kept_.back().fastest);
      extra -= drop_slow(extra);
    }
    return report(options_.extra_rounds - extra);
  }

 private:
  Round one_round() {
    Round round;
    const double before = anchor();
    for (std::size_t i = 0; i < cases_.size(); ++i) {
      round.seconds.push_back(run_once(cases_[i]));
      expected_ = std::max(expected_, ++done_);
      if (options_.progress) options_.progress(i, done_, expected_);
    }
    const double after = anchor();
    round.anchor = 0.5 * (before + after);
    round.slowest = std::min(before, after);
    round.fastest = std::max(before, after);
    return round;
  }

  double anchor() const { return options_.anchor ? options_.anchor() : gemm::gemm_rate(context_); }

  // A round that looked good can turn out slow when a later one shows a better best.
  int drop_slow(int most) {
    int dropped = 0;
    for (std::size_t i = 0; i < kept_.size() && dropped < most;) {
      if (kept_[i].slowest >= options_.slow * best_) {
        ++i;
        continue;
      }
      kept_.erase(kept_.begin() + static_cast<std::ptrdiff_t>(i));
      expected_ += cases_.size();
      ++dropped;
    }
    return dropped;
  }

  RoundReport report(int repeated) const {
    RoundReport report;
    std::vector<double> anchors;
    for (const Round& round : kept_) anchors.push_back(round.anchor);
    report.anchor = median(std::move(anchors));
    report.rounds = static_cast<int>(kept_.size());
    report.repeated = repeated;
    for (std::size_t i = 0; i < cases_.size(); ++i) report.cases.push_back(summarize(cases_[i], i, kept_));
    return report;
  }

  const Context& context_;
  std::span<const TimedCase> cases_;
  const RoundOptions& options_;
  std::vector<Round> kept_;
  double best_ = 0.0;
  std::size_t done_ = 0, expected_;
};

}  // namespace

RoundReport measure_rounds(const Context& context, std::span<const TimedCase> cases, const RoundOptions& options) {
  return Rounds(context, cases, options).run();
}

double median(std::vector<double> values) {
  if (values.empty()) return 0.0;
  std::sort(values.begin(), values.end());
  return quantile(values, 0.5);
}

}  // namespace fovea
