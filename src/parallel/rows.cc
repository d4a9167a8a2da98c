#include "parallel/rows.h"

#include "core/wide.h"
#include "ops/dropout_parts.h"
#include "ops/numbers.h"

namespace fovea::divided {
namespace {

Tensor widened(const Tape& tape, const Tensor& x) { return x.to(tape.context(), wide_type(x.dtype())); }

void join_backward(Tape& tape, Node& node) {
  const auto& division = std::any_cast<const Division&>(node.attributes);
  const Tensor sum = division.sum_cut(tape.context(), widened(tape, node.grad()));
  tape.accumulate(node.inputs[0], sum.to(tape.context(), node.inputs[0]->dtype));
}

void cut_backward(Tape& tape, Node& node) {
  const auto& division = std::any_cast<const Division&>(node.attributes);
  tape.accumulate(node.inputs[0], division.spread(tape.context(), node.grad().contiguous(tape.context())));
}

// A copy that all ranks add up.
Tensor summed(const Tape& tape, const Tensor& x, const dist::Group& ranks) {
  const Tensor sum = widened(tape, x).clone(tape.context());
  ranks.all_reduce(sum);
  return sum;
}

void sum_backward(Tape& tape, Node& node) {
  tape.accumulate(node.inputs[0], summed(tape, node.grad(), std::any_cast<const dist::Group&>(node.attributes)));
}

void share_backward(Tape& tape, Node& node) {
  const Tensor g = node.grad().clone(tape.context());
  g.fill(g.item() * std::any_cast<double>(node.attributes));
  tape.accumulate(node.inputs[0], g);
}

constexpr Op kJoin{"join_rows", join_backward};
constexpr Op kCut{"cut_rows", cut_backward};
constexpr Op kSum{"sum_of_ranks", sum_backward};
constexpr Op kShare{"loss_of_ranks", share_backward};

Tensor number(const Tape& tape, double value, DType dtype) {
  const Tensor x = Tensor::empty(tape.context(), {}, dtype);
  x.fill(value);
  return x;
}

// The sum over ranks of what each makes of its rows of a sequence, times this rank's factors: x (sequences, width).
Var weighted_sum(Tape& tape, const Var& x, const Division& division, const std::vector<double>& factors) {
  const std::int64_t width = x.dim(1);
  std::vector<double> all;
  for (const double factor : factors) all.insert(all.end(), static_cast<std::size_t>(width), factor);
  const Tensor weights = Tensor::from<double>(tape.context(), x.shape(), all).to(tape.context(), x.dtype());
  return sum(tape, mul(tape, x, weights), division.ranks());
}

// factor(sequence) of this rank for each.
template <class Factor>
std::vector<double> factors_of(const Division& division, const Factor& factor) {
  std::vector<double> factors;
  for (std::size_t s = 0; s < division.size(); ++s)
    factors.push_back(division.count(s, division.ranks().rank()) > 0 ? factor(s) : 0.0);
  return factors;
}

Var wide(Tape& tape, const Var& x) { return cast(tape, x, wide_type(x.dtype())); }

}  // namespace

Var join(Tape& tape, const Var& part, const Division& division) {
  return tape.record(kJoin, {part}, division.join(tape.context(), part.value()), {}, division);
}

Var cut(Tape& tape, const Var& whole, const Division& division) {
  return tape.record(kCut, {whole}, division.cut(tape.context(), whole.value()), {}, division);
}

Var sum(Tape& tape, const Var& x, const dist::Group& ranks) {
  return tape.record(kSum, {x}, summed(tape, x.value(), ranks), {}, ranks);
}

ClassLoss mean_of_all(Tape& tape, const ClassLoss& own, const dist::Group& ranks) {
  if (ranks.size() == 1) return own;
  const std::vector<double> mine = read_numbers(tape.context(), {own.value.value(), own.asked, own.correct});
  const std::vector<double> all = ranks.all_gather(mine);
  double loss = 0.0, asked = 0.0, correct = 0.0;
  for (std::size_t i = 0; i < all.size(); i += mine.size()) {
    loss += all[i] * all[i + 1];
    asked += all[i + 1];
    correct += all[i + 2];
  }
  const double rows = std::max(1.0, asked);
  const Var value = tape.record(kShare, {own.value}, number(tape, loss / rows, own.value.dtype()), {}, mine[1] / rows);
  return {value, number(tape, asked, DType::f64), number(tape, correct, DType::f64)};
}

Var alike(Tape& tape, const Var& x, const dist::Group& ranks) {
  return ranks.size() == 1 ? x : tape.record(kShare, {x}, x.value(), {}, 1.0 / ranks.size());
}

Var dropout(Tape& tape, const Var& x, double p, const Division& division) {
  std::int64_t width = 1;
  for (int i = 2; i < x.value().rank(); ++i) width *= x.dim(i);
  std::vector<DropoutPart> parts;
  const int rank = division.ranks().rank();
  for (std::size_t s = 0; s < division.size(); ++s) {
    const std::int64_t at = division.row(s), n = division.count(s, rank);
    if (n > 0)
      parts.push_back({at * width, (at + n) * width, (division.whole_row(s) + division.begin(s, rank)) * width});
  }
  return dropout_parts(tape, x, p, std::move(parts));
}

Var mean_pool(Tape& tape, const Var& x, const Division& division) {
  const Var own = fovea::mean_pool(tape, wide(tape, x), division.sequences());
  return weighted_sum(tape, own, division, factors_of(division, [&](std::size_t s) {
                        return static_cast<double>(division.count(s, division.ranks().rank())) /
                               static_cast<double>(division.length(s));
                      }));
}

Var first_pool(Tape& tape, const Var& x, const Division& division) {
  const Var own = wide(tape, fovea::first_pool(tape, x, division.sequences()));
  return weighted_sum(tape, own, division, factors_of(division, [&](std::size_t s) {
                        return division.begin(s, division.ranks().rank()) == 0 ? 1.0 : 0.0;
                      }));
}

Var last_pool(Tape& tape, const Var& x, const Division& division) {
  const Var own = wide(tape, fovea::last_pool(tape, x, division.sequences()));
  return weighted_sum(tape, own, division, factors_of(division, [&](std::size_t s) {
                        return division.end(s, division.ranks().rank()) == division.length(s) ? 1.0 : 0.0;
                      }));
}

}  // namespace fovea::divided
