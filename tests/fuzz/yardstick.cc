#include "fuzz/yardstick.h"

#include <algorithm>
#include <cmath>

#include "core/wide.h"

namespace fovea::fuzz {
namespace {

constexpr double kSlack = 2.0;              // an error may be so many times that of an honest computation
constexpr int kDraws = 2, kMoreDraws = 30;  // of the noise; after a failure
constexpr double kBlunt = 0.5;

double norm(const std::vector<double>& x) {
  double sum = 0.0;
  for (const double value : x)
    if (std::isfinite(value)) sum += value * value;
  return std::sqrt(sum);
}

void add(const std::vector<Part>& still, const std::vector<Part>& moved, Spread::Rows& rows) {
  rows.resize(still.size());
  for (std::size_t p = 0; p < still.size(); ++p) {
    const auto width = static_cast<std::size_t>(still[p].row);
    rows[p].resize((still[p].values.size() + width - 1) / width, 0.0);
    for (std::size_t i = 0; i < still[p].values.size(); ++i) {
      const double a = still[p].values[i], b = moved[p].values[i];
      if (std::isfinite(a)) rows[p][i / width] = std::fmax(rows[p][i / width], std::abs(a - b));
    }
  }
}

}  // namespace

Spread::Spread(const Case& c, const Outcome& still, double size, bool of_outputs)
    : c_(c), still_(still), size_(size), of_outputs_(of_outputs) {
  more(kDraws);
}

void Spread::more(std::uint64_t draws) {
  for (const std::uint64_t end = drawn_ + draws; drawn_ < end; ++drawn_) {
    const double size = size_ * (drawn_ >= kDraws && drawn_ % 2 == 1 ? 2.0 : 1.0);
    const Outcome moved = run_exact(c_, {size, 1 + drawn_, drawn_ % 2 == 0, of_outputs_});
    add(still_.outputs, moved.outputs, outputs_);
    add(still_.gradients, moved.gradients, gradients_);
  }
}

Yardstick::Yardstick(const Case& c, const Outcome& still, DType dtype, Spread& last_bit)
    : c_(c), still_(still), rounding_(rounding_of(dtype)), wide_(rounding_of(wide_type(dtype))), last_bit_(last_bit) {
  if (dtype != DType::f64) coarse_.emplace(c, still, rounding_);
  double out = 0.0;
  for (const Part& part : still.outputs) out = std::hypot(out, norm(part.values));
  for (const Leaf& leaf : c.leaves)
    if (leaf.trained) natural_.push_back(out / std::fmax(norm(leaf.values), 1e-3));
  const Spec& s = c.spec;
  std::int64_t longest = std::max({s.n_q * s.heads / s.kv_heads, s.n_k, s.d_k, s.d_v});
  double largest = 1.0;
  for (const Leaf& leaf : c.leaves) {
    for (int axis = 0; axis < leaf.shape.rank(); ++axis) longest = std::max(longest, leaf.shape.dim(axis));  // slots
    for (const double x : leaf.values) largest = std::fmax(largest, std::abs(x));
  }
  const auto terms = static_cast<double>(longest);
  least_ = conformance::least_of(dtype) * std::sqrt(terms) * largest;
  slack_ = kSlack * (1.0 + std::sqrt(terms) * wide_ / rounding_);
}

std::vector<double> Yardstick::of_output(std::size_t part) const { return joined(&Spread::outputs, part); }
std::vector<double> Yardstick::of_gradient(std::size_t part) const { return joined(&Spread::gradients, part); }

void Yardstick::look_closer() {
  last_bit_.more(kMoreDraws);
  if (coarse_) coarse_->more(kMoreDraws);
  given_.emplace(c_, still_, 2.0 * rounding_of(DType::f64), true);
}

std::vector<double> Yardstick::joined(Rows rows, std::size_t part) const {
  constexpr double kFine = 0x1p-53;
  std::vector<double> out = (last_bit_.*rows)()[part];
  for (std::size_t row = 0; row < out.size(); ++row) {
    out[row] *= rounding_ / kFine;
    if (coarse_) out[row] = std::fmax(out[row], ((*coarse_).*rows)()[part][row]);
    if (given_) out[row] = std::fmax(out[row], ((*given_).*rows)()[part][row] * wide_ / kFine);
  }
  return out;
}

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

}  // namespace fovea::fuzz
