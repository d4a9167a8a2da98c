#include "parallel/heads.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>

#include "core/wide.h"
#include "parallel/rows.h"

namespace fovea::divided {
namespace {

// Those of the engines, whose heads are told apart by their numbers alone.
constexpr std::string_view kByHeads[] = {
    "softmax", "taylor",       "topk",           "sparsemax", "entmax15", "margin",     "sa-softmax",
    "relu2",   "sigmoid",      "additive",       "shaw",      "diag",     "window",     "dilated",
    "star",    "sparse-fixed", "sparse-strided", "logsparse", "cascade",  "longformer", "linear",
    "norm",    "cosformer",    "retnet",         "lightning", "gla"};
constexpr std::string_view kNorms[] = {"none", "auto", "rms", "rms-a"};

bool is_listed(std::span<const std::string_view> names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

// A norm of the output over all heads.
struct HeadNorm {
  NormKind kind;
  double eps;
};

std::string norm_choice(const Mechanism& m) {
  for (const ParameterSpec& parameter : m.parameters())
    if (parameter.name == "norm") return m.choice("norm");
  return "none";
}

std::optional<HeadNorm> norm_of(const Mechanism& m) {
  if (m.name() == "retnet") return {};  // of each head
  const std::string norm = norm_choice(m);
  const bool rms = norm == "rms" || (norm == "auto" && m.choice("weights") == "rela");
  if (rms) return HeadNorm{NormKind::rms, m.number("eps")};
  if (norm == "rms-a") return HeadNorm{NormKind::rms_a, m.number("eps")};
  return {};
}

Mechanism without_norm(const Mechanism& m) {
  std::vector<Mechanism::Setting> settings;
  for (const ParameterSpec& parameter : m.parameters())
    settings.push_back({std::string(parameter.name),
                        parameter.name == "norm" ? ParameterValue(std::string("none")) : m.value(parameter.name)});
  return Mechanism(m.name(), settings);
}

// 1 / sqrt(s / count + eps), or 1 / (sqrt(s / count) + eps), of every s.
struct InverseRoot {
  HeadNorm norm;
  double count;

  double value(double s) const {
    const double mean = s / count;
    return norm.kind == NormKind::rms ? 1.0 / std::sqrt(mean + norm.eps) : 1.0 / (std::sqrt(mean) + norm.eps);
  }
  double slope(double s) const {
    const double r = value(s);
    if (norm.kind == NormKind::rms) return -0.5 * r * r * r / count;
    const double root = std::sqrt(s / count);
    return root > 0.0 ? -0.5 * r * r / (root * count) : 0.0;
  }
};

template <class F>
Tensor of_each(const Context& context, const Tensor& x, const F& f) {
  std::vector<double> values = x.to_vector<double>();
  for (double& value : values) value = f(value);
  return Tensor::from<double>(context, x.shape(), values).to(context, x.dtype());
}

// saved: s.
void inverse_root_backward(Tape& tape, Node& node) {
  const auto& root = std::any_cast<const InverseRoot&>(node.attributes);
  const Tensor& s = node.saved[0];
  const std::vector<double> sums = s.to_vector<double>();
  std::size_t i = 0;
  tape.accumulate(node.inputs[0],
                  of_each(tape.context(), node.grad(), [&](double g) { return g * root.slope(sums[i++]); }));
}

constexpr Op kInverseRoot{"inverse_root", inverse_root_backward};

// normalize_heads() of y (b, n, heads, d), in a wide type, and the heads of all other ranks: a number of each row
// travels.
Var normalize_over_ranks(Tape& tape, const Var& y, const HeadNorm& norm, const dist::Group& ranks) {
  const Context& context = tape.context();
  const std::int64_t rows = y.dim(0) * y.dim(1), width = y.dim(2) * y.dim(3);
  const Var flat = reshape(tape, y, {rows, width});
  const Tensor ones = Tensor::empty(context, {width, 1}, y.dtype());
  ones.fill(1.0);
  const Var squares = reshape(tape, matmul(tape, mul(tape, flat, flat), ones), {rows});
  const Var all = sum(tape, squares, ranks);
  const InverseRoot root{norm, static_cast<double>(width * ranks.size())};
  const Var factor = tape.record(
      kInverseRoot, {all}, of_each(context, all.value(), [&](double s) { return root.value(s); }), {all.value()}, root);
  std::vector<std::int32_t> order(static_cast<std::size_t>(rows));
  std::iota(order.begin(), order.end(), 0);
  const Index same(Tensor::from<std::int32_t>(context, {rows}, order), 0, rows, true);
  return reshape(tape, scatter_rows(tape, flat, same, rows, factor), {y.dim(0), y.dim(1), y.dim(2), y.dim(3)});
}

}  // namespace

bool divides_heads(const Mechanism& mechanism) {
  return is_listed(kByHeads, mechanism.name()) && is_listed(kNorms, norm_choice(mechanism));
}

Var attention_of_heads(Tape& tape, const Heads& heads, const Mechanism& mechanism, AttentionOptions options,
                       const AttendHeads& attend) {
  if (heads.ranks.size() == 1) return attend(heads, mechanism, options);
  const std::int64_t here = heads.q.dim(2);
  options.heads = {.first = here * heads.ranks.rank(), .all = here * heads.ranks.size()};
  const std::optional<HeadNorm> norm = norm_of(mechanism);
  if (!norm) return attend(heads, mechanism, options);
  const DType dtype = heads.q.dtype();
  const auto wide = [&](const Var& x) { return cast(tape, x, wide_type(dtype)); };  // sums without a norm are large
  const Var y = attend({wide(heads.q), wide(heads.k), wide(heads.v), heads.ranks}, without_norm(mechanism), options);
  return cast(tape, normalize_over_ranks(tape, y, *norm, heads.ranks), dtype);
}

}  // namespace fovea::divided
