#include "fuzz/judge.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <optional>

#include "core/rng.h"
#include "fuzz/yardstick.h"
#include "mechanisms/kind.h"

namespace fovea::fuzz {
namespace {

// Collects the worst of a comparison of two runs.
class Comparison {
 public:
  Comparison(std::string label, const Yardstick& yard) : label_(std::move(label)), yard_(yard) {}

  void outputs(const std::vector<Part>& got, const std::vector<Part>& want) {
    for (std::size_t p = 0; p < want.size(); ++p)
      note(want[p].name,
           deviation(got[p], want[p], yard_.of_output(p), {yard_.slack(), yard_.rounding(), yard_.floor_of_output()}),
           verdict_.forward);
  }
  void gradients(const std::vector<Part>& got, const std::vector<Part>& want) {
    for (std::size_t p = 0; p < want.size(); ++p)
      note(want[p].name,
           deviation(got[p], want[p], yard_.of_gradient(p),
                     {yard_.slack(), yard_.rounding(), yard_.floor_of_gradient(p)}),
           verdict_.backward);
  }
  const Verdict& verdict() const { return verdict_; }

 private:
  void note(const std::string& name, const Deviation& d, double& worst) {
    verdict_.blunt = verdict_.blunt || d.blunt;
    worst = std::fmax(worst, std::isnan(d.ratio) ? INFINITY : d.ratio);
    if (d.ratio <= 1.0 || !verdict_.failure.empty()) return;
    verdict_.failure = std::isnan(d.ratio)
                           ? fmt::format("{}: {} is {} for {}", label_, name, d.error, d.tolerance)
                           : fmt::format("{}: {} is off by {:.2g}, allowed {:.2g}", label_, name, d.error, d.tolerance);
  }

  std::string label_;
  const Yardstick& yard_;
  Verdict verdict_;
};

// Compares, and again with many draws of the noise where few were not enough.
template <class F>
Verdict compared(const std::string& label, Yardstick& yard, const F& compare) {
  Comparison first(label, yard);
  compare(first);
  if (first.verdict().failure.empty()) return first.verdict();
  yard.look_closer();
  Comparison second(label, yard);
  compare(second);
  return second.verdict();
}

void join(Verdict& all, const Verdict& one) {
  if (all.failure.empty()) all.failure = one.failure;
  all.forward = std::fmax(all.forward, one.forward);
  all.backward = std::fmax(all.backward, one.backward);
  all.blunt = all.blunt || one.blunt;
}

bool finite(const std::vector<Part>& parts, bool infinite_too) {
  for (const Part& part : parts)
    for (const double x : part.values)
      if (std::isnan(x) || (!infinite_too && std::isinf(x))) return false;
  return true;
}

// Rows of no sequence: nothing comes out, and nothing flows back.
std::string leaks(const Case& c, const Outcome& outcome) {
  const Spec& s = c.spec;
  const Sequences queries = queries_of(s), own = keys_of(s), keys = own.empty() && s.n_q == s.n_k ? queries : own;
  if (s.layer) return {};  // its last product adds a bias to every row
  const auto filled = [](const Part& part, const std::vector<std::int64_t>& rows, std::int64_t count) {
    const std::size_t width = part.values.size() / static_cast<std::size_t>(std::max<std::int64_t>(count, 1));
    for (const std::int64_t row : rows)
      for (std::size_t i = 0; i < width; ++i)
        if (part.values[static_cast<std::size_t>(row) * width + i] != 0.0) return true;
    return false;
  };
  if (filled(outcome.outputs[0], padding(queries, s.batch, s.n_q), s.batch * s.n_q)) return "output";
  for (const Part& part : outcome.gradients) {
    const bool of_query = part.name == "d q",
               of_key = part.name == "d k" || part.name == "d v" || part.name == "d input";
    if (of_query && filled(part, padding(queries, s.batch, s.n_q), s.batch * s.n_q)) return part.name;
    if (of_key && filled(part, padding(keys, s.batch, s.n_k), s.batch * s.n_k)) return part.name;
  }
  return {};
}

// The derivative of the definition along random directions, by differences, against the gradient in double.
class Slope {
 public:
  Slope(const Case& c, const Outcome& exact, const Yardstick& yard) : c_(c), slack_(yard.slack()) {
    const MechanismKind& kind = c.mechanism.kind();
    const bool stops = kind.stops_gradient != nullptr && kind.stops_gradient(c.mechanism);
    Random random(static_cast<std::uint64_t>(c.spec.seed), 30);
    std::size_t part = 0;
    for (const Leaf& leaf : c.leaves) {
      direction_.emplace_back(leaf.values.size(), 0.0);
      if (!leaf.trained) continue;
      const std::size_t p = part++;
      if (stops && (c.spec.layer || leaf.name == "k" || leaf.name == "v")) continue;
      const std::vector<double> rows = yard.of_gradient(p);
      const auto width = static_cast<std::size_t>(exact.gradients[p].row);
      for (std::size_t i = 0; i < leaf.values.size(); ++i) {
        const double d = random.normal(), term = exact.gradients[p].values[i] * d;
        direction_.back()[i] = d;
        value_ += term;
        size_ += term * term;
        rounding_ += std::abs(d) * (rows[i / width] + yard.floor_of_gradient(p));
      }
    }
    size_ = std::sqrt(size_);
    for (std::size_t i = 0; i < exact.outputs.size(); ++i) {
      const std::vector<double> pull = pulls(c, exact.outputs[i], i);
      for (std::size_t j = 0; j < pull.size(); ++j)
        if (pull[j] != 0.0) total_ += std::abs(pull[j] * exact.outputs[i].values[j]);
    }
  }

  // Error over tolerance at the largest step where the difference can be trusted: a kink may lie between the points,
  // or, where rounded numbers tie, in the middle. Nothing: at none.
  std::optional<Deviation> error() const {
    for (const double step : {1e-4, 1e-6, 1e-8}) {
      const double wide = difference(step), narrow = difference(0.5 * step);
      const double numeric = (4.0 * narrow - wide) / 3.0;
      const double tolerance =
          std::abs(wide - narrow) + slack_ * (rounding_ + total_ * 0x1p-52 / step) + std::numeric_limits<double>::min();
      if (!(tolerance < 1e-3 * std::fmax(size_, std::abs(numeric)) || tolerance < 1e-9)) continue;
      const double error = std::abs(numeric - value_);
      if (error > tolerance && (step > 1e-8 || kink(step) >= error)) continue;
      return Deviation{error / tolerance, error, tolerance, false};
    }
    return std::nullopt;
  }

 private:
  double objective(double step) const {
    const std::vector<Part> outputs = define(c_, {step, &direction_});
    double sum = 0.0;
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      const std::vector<double> pull = pulls(c_, outputs[i], i);
      for (std::size_t j = 0; j < pull.size(); ++j)
        if (pull[j] != 0.0) sum += pull[j] * outputs[i].values[j];
    }
    return sum;
  }
  // How much the slopes to both sides differ.
  double kink(double step) const { return std::abs(objective(step) + objective(-step) - 2.0 * objective(0.0)) / step; }
  double difference(double step) const { return (objective(step) - objective(-step)) / (2.0 * step); }

  const Case& c_;
  double slack_;
  std::vector<std::vector<double>> direction_;
  double value_ = 0.0, size_ = 0.0, rounding_ = 0.0, total_ = 0.0;
};

void check_slope(const Case& c, const Outcome& exact, const Yardstick& yard, Verdict& verdict) {
  if (!finite(exact.gradients, false)) {
    verdict.failure = "f64: a gradient is not finite";
    return;
  }
  const std::optional<Deviation> slope = Slope(c, exact, yard).error();
  if (!slope) {
    verdict.blunt = true;
    return;
  }
  verdict.backward = std::fmax(verdict.backward, slope->ratio);
  if (!(slope->ratio <= 1.0))
    verdict.failure = fmt::format("f64: gradients are off by {:.2g} from differences of the definition, allowed {:.2g}",
                                  slope->error, slope->tolerance);
}

// Numbers that the type cannot hold.
bool beyond(const Case& c, const Outcome& exact) {
  const double most = c.dtype == DType::f16 ? 3e4 : c.dtype == DType::f64 ? 1e300 : 1e37;
  for (const std::vector<Part>* parts : {&exact.outputs, &exact.gradients})
    for (const Part& part : *parts)
      for (const double x : part.values)
        if (std::isfinite(x) && std::abs(x) > most) return true;
  return false;
}

Verdict judge_call(const Spec& spec) {
  Verdict verdict;
  const Case c = make_case(spec);
  const Outcome exact = run_exact(c);
  Spread last_bit(c, exact, 2.0 * rounding_of(DType::f64));
  Yardstick in_double(c, exact, DType::f64, last_bit);
  const std::vector<Part> defined = define(c);
  join(verdict, compared("f64 against its definition", in_double,
                         [&](Comparison& against) { against.outputs(exact.outputs, defined); }));
  if (verdict.failure.empty()) check_slope(c, exact, in_double, verdict);
  if (!verdict.failure.empty()) return verdict;
  if (beyond(c, exact)) return verdict.blunt = true, verdict;
  const Subject subject = run_subject(c);
  if (!subject.differs.empty()) {
    verdict.failure = fmt::format("{}: other bits in another call", subject.differs);
    return verdict;
  }
  const std::string leak = leaks(c, subject.outcome);
  if (!leak.empty()) {
    verdict.failure = fmt::format("{} is not zero in rows of no sequence", leak);
    return verdict;
  }
  Yardstick in_type(c, exact, c.dtype, last_bit);
  join(verdict, compared(fmt::format("{} against f64", spec.dtype), in_type, [&](Comparison& against) {
         against.outputs(subject.outcome.outputs, exact.outputs);
         against.gradients(subject.outcome.gradients, exact.gradients);
       }));
  return verdict;
}

// An error about a setting or an option that the mechanism itself limits: a call that it need not take.
bool is_limit(const Spec& spec, const Error& error) {
  if (error.code() != ErrorCode::usage && error.code() != ErrorCode::unsupported) return false;
  if (error.where() == "scale") return true;
  for (const ParameterSpec& p : Mechanism::parse(spec.mechanism).parameters())
    if (p.name == error.where()) return true;
  return false;
}

}  // namespace

Verdict judge(const Spec& spec) {
  std::string line;
  try {
    if (spec.wrong.empty()) return judge_call(spec);
    line = run_wrong(spec);
  } catch (const Error& error) {
    if (is_limit(spec, error)) return {.refused = true};
    line = std::string("raises: ") + error.what();
  } catch (const std::exception& error) {
    line = std::string("raises: ") + error.what();
  }
  std::replace(line.begin(), line.end(), '\n', ' ');
  return {.failure = line, .refused = line.empty()};
}

}  // namespace fovea::fuzz
