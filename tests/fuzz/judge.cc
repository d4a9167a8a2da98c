#include "fuzz/judge.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <optional>

#include "core/rng.h"
#include "fuzz/case.h"
#include "mechanisms/kind.h"

namespace fovea::fuzz {
namespace {

constexpr double kSlack = 2.0;              // an error may be so many times that of an honest computation
constexpr int kDraws = 2, kMoreDraws = 30;  // of the noise; after a failure
constexpr double kBlunt = 0.5;

double rounding_of(DType dtype) {
  switch (dtype) {
    case DType::f32: return 0x1p-24;
    case DType::bf16: return 0x1p-8;
    case DType::f16: return 0x1p-11;
    default: return 0x1p-53;
  }
}

// The least number above 0 that a type holds.
double least_of(DType dtype) { return dtype == DType::f16 ? 0x1p-24 : dtype == DType::f64 ? 0x1p-1022 : 0x1p-126; }

// How far the results of the call in double move when every number that goes in moves, a number for each row.
class Spread {
 public:
  using Rows = std::vector<std::vector<double>>;
  // Noise of `size`; what it does is written down times `factor`.
  struct Kind {
    double size, factor;
  };

  Spread(const Case& c, const Outcome& still, Kind kind) : c_(c), still_(still), kind_(kind) { more(kDraws); }

  void more(std::uint64_t draws) {
    for (std::uint64_t end = drawn_ + draws; drawn_ < end; ++drawn_) {
      const double size = kind_.size * (drawn_ >= kDraws && drawn_ % 2 == 1 ? 2.0 : 1.0);
      const Outcome moved = run_exact(c_, {size, 1 + drawn_, drawn_ % 2 == 0});
      add(still_.outputs, moved.outputs, outputs_);
      add(still_.gradients, moved.gradients, gradients_);
    }
  }
  const Rows& outputs() const { return outputs_; }
  const Rows& gradients() const { return gradients_; }

 private:
  void add(const std::vector<Part>& still, const std::vector<Part>& moved, Rows& rows) const {
    rows.resize(still.size());
    for (std::size_t p = 0; p < still.size(); ++p) {
      const auto width = static_cast<std::size_t>(still[p].row);
      rows[p].resize((still[p].values.size() + width - 1) / width, 0.0);
      for (std::size_t i = 0; i < still[p].values.size(); ++i) {
        const double a = still[p].values[i], b = moved[p].values[i];
        if (std::isfinite(a)) rows[p][i / width] = std::fmax(rows[p][i / width], kind_.factor * std::abs(a - b));
      }
    }
  }

  const Case& c_;
  const Outcome& still_;
  Kind kind_;
  std::uint64_t drawn_ = 0;
  Rows outputs_, gradients_;
};

double norm(const std::vector<double>& x) {
  double sum = 0.0;
  for (const double value : x)
    if (std::isfinite(value)) sum += value * value;
  return std::sqrt(sum);
}

// What errors of a type are held against. Two things move the results: the noise of one rounding on all that goes in,
// and the roundings on the way, which the last bit of double shows: they are as much larger as the type is coarser.
class Yardstick {
 public:
  Yardstick(const Case& c, const Outcome& still, DType dtype, Spread& last_bit)
      : rounding_(rounding_of(dtype)), least_(least_of(dtype)), last_bit_(last_bit) {
    if (dtype != DType::f64) coarse_.emplace(c, still, Spread::Kind{rounding_, 1.0});
    double out = 0.0;
    for (const Part& part : still.outputs) out = std::hypot(out, norm(part.values));
    for (const Leaf& leaf : c.leaves)
      if (leaf.trained) natural_.push_back(out / std::fmax(norm(leaf.values), 1e-3));
    const Spec& s = c.spec;
    const auto terms = static_cast<double>(std::max({s.n_q * s.heads / s.kv_heads, s.n_k, s.d_k, s.d_v}));
    slack_ = kSlack * (1.0 + std::sqrt(terms) * rounding_of(wide_type(dtype)) / rounding_);
  }

  // A few roundings of the type, and those of the longest sum, which is kept in the wide type.
  double slack() const { return slack_; }
  double rounding() const { return rounding_; }
  std::vector<double> of_output(std::size_t part) const {
    return joined(last_bit_.outputs()[part], coarse_ ? &coarse_->outputs()[part] : nullptr);
  }
  std::vector<double> of_gradient(std::size_t part) const {
    return joined(last_bit_.gradients()[part], coarse_ ? &coarse_->gradients()[part] : nullptr);
  }
  // ||outputs|| / ||leaf||: the gradient if one followed the other. Terms that cancel leave a rounding of it.
  double floor_of_gradient(std::size_t part) const { return (rounding_ + least_) * natural_[part] + least_; }
  double floor_of_output() const { return least_; }
  // A kink may lie where few draws look.
  void look_closer() {
    last_bit_.more(kMoreDraws);
    if (coarse_) coarse_->more(kMoreDraws);
  }

 private:
  std::vector<double> joined(const std::vector<double>& fine, const std::vector<double>* coarse) const {
    std::vector<double> out;
    for (std::size_t row = 0; row < fine.size(); ++row)
      out.push_back(
          std::fmax(fine[row] * rounding_ / rounding_of(DType::f64), coarse != nullptr ? (*coarse)[row] : 0.0));
    return out;
  }

  double rounding_, least_, slack_ = 0.0;
  Spread& last_bit_;
  std::optional<Spread> coarse_;
  std::vector<double> natural_;
};

struct Deviation {
  double ratio = 0.0;  // of the largest error to its tolerance; NaN: a result is not finite
  double error = 0.0, tolerance = 0.0;
  bool blunt = false;
};

// Rows are held against the larger of their own spread and the root mean square over all rows.
struct Allowed {
  double slack, rounding, floor;
};
Deviation deviation(const Part& got, const Part& want, const std::vector<double>& spread, const Allowed& allowed) {
  Deviation worst;
  if (got.values.size() != want.values.size()) return {NAN, 0.0, 0.0, false};
  const auto width = static_cast<std::size_t>(want.row);
  double square = 0.0, largest = 0.0;
  for (const double s : spread) square += s * s;
  const double usual = std::sqrt(square / std::fmax(1.0, static_cast<double>(spread.size())));
  for (std::size_t row = 0; row < spread.size(); ++row) {
    double error = 0.0, size = 0.0;
    for (std::size_t i = row * width; i < std::min((row + 1) * width, want.values.size()); ++i) {
      if (std::isfinite(want.values[i])) largest = std::fmax(largest, std::abs(want.values[i]));
      if (got.values[i] == want.values[i]) continue;
      const double difference = std::abs(got.values[i] - want.values[i]);
      if (!(difference < INFINITY)) return {NAN, got.values[i], want.values[i], false};
      error = std::fmax(error, difference);
      size = std::fmax(size, std::abs(want.values[i]));
    }
    if (error == 0.0) continue;
    const double tolerance = allowed.slack * (std::fmax(spread[row], usual) + allowed.rounding * size + allowed.floor);
    if (error > worst.ratio * tolerance)
      worst.ratio = error / tolerance, worst.error = error, worst.tolerance = tolerance;
  }
  worst.blunt = largest > 0.0 && allowed.slack * (usual + allowed.floor) > kBlunt * largest;
  return worst;
}

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
  Spread last_bit(c, exact, {2.0 * rounding_of(DType::f64), 1.0});
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
