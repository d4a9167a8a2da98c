#include "inspect/score_health.h"

#include <numeric>

#include "inspect/sampled_rows.h"
#include "inspect/source.h"
#include "tensor/views.h"

namespace fovea::inspection {
namespace {

constexpr std::int64_t kBlocks = 4, kRows = 64;  // in all
constexpr double kSaturated = 0.99;
constexpr std::int64_t kPairs = std::int64_t{1} << 20;  // of a head that are looked at, about

double dot(const float* a, const float* b, std::int64_t n) {
  double sum = 0.0;
  for (std::int64_t i = 0; i < n; ++i) sum += static_cast<double>(a[i]) * static_cast<double>(b[i]);
  return sum;
}

double longest_row(std::span<const float> x, std::int64_t width) {
  double most = 0.0;
  for (std::size_t at = 0; at + size(width) <= x.size(); at += size(width))
    most = std::max(most, dot(&x[at], &x[at], width));
  return std::sqrt(most);
}

// What is no number counts as the most there is.
void raise(std::optional<double>& most, double value) {
  const double number = std::isnan(value) ? INFINITY : value;
  most = std::max(most.value_or(number), number);
}

// The measures of a call, block after block of its rows.
class Examination {
 public:
  explicit Examination(const ScoreQuestion& question)
      : q_(question),
        shape_(question.call.shape()),
        d_(question.call.v.dim(3)),
        kv_heads_(question.call.v.dim(2)),
        values_(on_host(question.call.v).to_vector<float>()) {}

  void look(const SampledRows& rows, std::int64_t begin, std::int64_t end, bool has_scores) {
    for (std::int64_t i = 0; i < end - begin; ++i) {
      const std::int64_t keys = readable(begin + i);
      for (std::int64_t h = 0; h < shape_.heads && has_scores; ++h)
        if (rows.max_logit(h, i) != -INFINITY) raise(out_.max_logit, rows.max_logit(h, i));
      if (q_.theory == ScoreTheory::norm) {
        through_norm(rows, i, begin + i, keys);
      } else if (q_.theory != ScoreTheory::none && keys > 1) {
        for (std::int64_t h = 0; h < shape_.heads; ++h) through_shares(rows, h, i, begin + i);
      }
    }
  }

  ScoreHealth finish() {
    if (q_.theory == ScoreTheory::softmax && several_ > 0)
      out_.saturated = static_cast<double>(saturated_) / static_cast<double>(several_);
    if (q_.theory == ScoreTheory::softmax) out_.derivative_bound = 0.25;
    if (q_.theory == ScoreTheory::denominator && several_ > 0) out_.derivative_bound = 0.25 / smallest_;
    if (q_.d_output.empty() || q_.theory == ScoreTheory::none) return out_;
    const bool norm = q_.theory == ScoreTheory::norm;
    const std::int64_t width = norm ? shape_.heads * d_ : d_;
    const double lengths = longest_row(q_.d_output, width) * longest_row(values_, d_);  // c1 c2
    if (norm) {
      out_.gradient_bound = lengths / std::sqrt(q_.norm_eps);
      out_.paper_bound = 1.5 * static_cast<double>(width) * *out_.gradient_bound;
    } else {
      out_.gradient_bound = lengths * (q_.theory == ScoreTheory::softmax ? 0.5 : 2.0 * largest_factor_);
    }
    return out_;
  }

 private:
  std::int64_t readable(std::int64_t row) const {
    return q_.call.options.causal ? std::clamp<std::int64_t>(row + 1 + shape_.n_k - shape_.n_q, 0, shape_.n_k)
                                  : shape_.n_k;
  }
  const float* value(std::int64_t head, std::int64_t key) const {
    return &values_[size((key * kv_heads_ + head * kv_heads_ / shape_.heads) * d_)];
  }
  const float* d_output(std::int64_t row, std::int64_t head) const {
    return q_.d_output.empty() ? nullptr : &q_.d_output[size((row * shape_.heads + head) * d_)];
  }

  // Rows of shares p = f(s) / sum f(s), f the exponential or nothing at all: dp_j/ds_k = f'(s_k) / f(s_k) (1_jk p_k -
  // p_j p_k), dL/ds_k = f'(s_k) / f(s_k) p_k (dL/do . v_k - dL/do . o).
  void through_shares(const SampledRows& rows, std::int64_t h, std::int64_t i, std::int64_t row) {
    const std::span<const float> p = rows.weights(h, i).first(size(readable(row)));
    const bool softmax = q_.theory == ScoreTheory::softmax;
    const double over_sum = softmax ? 1.0 : rows.factor(h, i);
    double largest = 0.0, derivative = 0.0;
    for (const float share : p) {
      const auto x = static_cast<double>(share);
      largest = std::max(largest, x);
      derivative = std::max(derivative, softmax ? x * (1.0 - x) : std::abs((1.0 - x) * over_sum));
      if (!softmax) smallest_ = std::min(smallest_, std::abs(x / over_sum));
    }
    if (!softmax) {
      derivative = std::max(derivative, std::abs(largest * over_sum));
      largest_factor_ = std::max(largest_factor_, std::abs(over_sum));
    }
    raise(out_.derivative, derivative);
    ++several_;
    if (largest > kSaturated) ++saturated_;
    if (const float* d_o = d_output(row, h)) {
      std::vector<double> along(p.size());
      for (std::size_t j = 0; j < p.size(); ++j)
        if (p[j] != 0.0f || !softmax) along[j] = dot(d_o, value(h, static_cast<std::int64_t>(j)), d_);
      const double mean = std::inner_product(p.begin(), p.end(), along.begin(), 0.0);
      for (std::size_t j = 0; j < p.size(); ++j)
        raise(out_.gradient, std::abs((softmax ? static_cast<double>(p[j]) : over_sum) * (along[j] - mean)));
    }
  }

  // o = t / sqrt(mean of t^2 over all heads + eps), t = sum_j s_j v_j: dL/ds_j = dL/dt . v_j.
  void through_norm(const SampledRows& rows, std::int64_t i, std::int64_t row, std::int64_t keys) {
    if (q_.d_output.empty() || keys < 1) return;
    const std::int64_t width = shape_.heads * d_;
    std::vector<double> t(size(width), 0.0);
    for (std::int64_t h = 0; h < shape_.heads; ++h)
      for (std::int64_t j = 0; j < keys; ++j) {
        const auto s = static_cast<double>(rows.weights(h, i)[size(j)]);
        for (std::int64_t c = 0; c < d_; ++c) t[size(h * d_ + c)] += s * static_cast<double>(value(h, j)[c]);
      }
    const double squares = std::inner_product(t.begin(), t.end(), t.begin(), 0.0);
    const double root = std::sqrt(squares / static_cast<double>(width) + q_.norm_eps);
    const float* d_o = d_output(row, 0);
    double along = 0.0;
    for (std::int64_t c = 0; c < width; ++c) along += static_cast<double>(d_o[c]) * t[size(c)] / root;
    std::vector<float> d_t(size(width));
    for (std::int64_t c = 0; c < width; ++c)
      d_t[size(c)] = static_cast<float>(
          (static_cast<double>(d_o[c]) - t[size(c)] / root * along / static_cast<double>(width)) / root);
    for (std::int64_t h = 0; h < shape_.heads; ++h)
      for (std::int64_t j = 0; j < keys; ++j) raise(out_.gradient, std::abs(dot(&d_t[size(h * d_)], value(h, j), d_)));
  }

  const ScoreQuestion& q_;
  MapShape shape_;
  std::int64_t d_, kv_heads_;
  std::vector<float> values_;  // (n_k, kv_heads, d_v)
  ScoreHealth out_;
  double smallest_ = INFINITY;                // |s|
  double largest_factor_ = 0.0;               // 1 / z
  std::int64_t several_ = 0, saturated_ = 0;  // rows of several keys
};

}  // namespace

std::string_view name_of(ScoreTheory theory) {
  constexpr std::string_view kNames[] = {"none", "softmax", "denominator", "norm"};
  return kNames[static_cast<std::size_t>(theory)];
}

ScoreHealth score_health(Context& host, const ScoreQuestion& question) {
  const MapShape shape = question.call.shape();
  if (shape.n_q == 0 || shape.n_k == 0) return {};
  const auto source = source_of(host, question.call);
  if (source == nullptr) return {};
  const std::int64_t rows = std::clamp<std::int64_t>(kPairs / shape.n_k, kBlocks, kRows);
  Examination examination(question);
  RowBlocks{kBlocks, rows / kBlocks}.each(shape.n_q, [&](std::int64_t begin, std::int64_t end) {
    SampledRows sampled(shape, begin, end);
    source->rows(host, {.begin = begin, .end = end}, sampled);
    examination.look(sampled, begin, end, source->has_scores());
  });
  return examination.finish();
}

}  // namespace fovea::inspection

namespace fovea {

void ScoreHealth::take_worse(const ScoreHealth& other) {
  for (const auto member :
       {&ScoreHealth::max_logit, &ScoreHealth::saturated, &ScoreHealth::derivative, &ScoreHealth::derivative_bound,
        &ScoreHealth::gradient, &ScoreHealth::gradient_bound, &ScoreHealth::paper_bound})
    if (other.*member) inspection::raise(this->*member, *(other.*member));
}

}  // namespace fovea
