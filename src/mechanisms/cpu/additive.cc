#include "ops/cpu/additive.h"

#include <algorithm>

#include "core/parallel.h"
#include "mechanisms/score/additive_kernels.h"
#include "policy/math.h"

// The score is no product, so it has loops of its own: a row of scores at a time, made again in backward. Nothing
// larger than a row is stored.
namespace fovea {
namespace {

using kernels::AdditiveInputs;
using kernels::AdditivePairs;
using kernels::AttendAdditive;
using kernels::AttendAdditiveVjp;

constexpr std::int64_t kRows = 16;  // queries of a task

// One sequence of one head. Tensors are dense: left (b, n_q, heads, a) = Wq q and right (b, n_k, kv_heads, a) = Wk k,
// vector (heads, a), value (b, n_k, kv_heads, d_v).
template <class T>
class Head {
 public:
  using R = Wide<T>;

  Head(const AdditivePairs& pairs, const AdditiveInputs& in, std::size_t sequence, std::int64_t head)
      : pattern_(&pairs.pattern),
        q_(pairs.queries[sequence]),
        k_(pairs.keys[sequence]),
        head_(head),
        kv_head_(head * in.right.dim(2) / in.left.dim(2)),
        left_(in.left),
        right_(in.right),
        value_(in.value),
        vector_(in.vector.data<R>() + head * width()) {}

  std::int64_t width() const { return left_.dim(3); }
  template <class X>
  static X* row(const Tensor& x, const Sequences::Rows& rows, std::int64_t i, std::int64_t head) {
    return x.data<X>() + (((rows.batch * x.dim(1)) + rows.begin + i) * x.dim(2) + head) * x.dim(3);
  }
  template <class X>
  X* of_query(const Tensor& x, std::int64_t i) const {
    return row<X>(x, q_, i, head_);
  }
  template <class X>
  X* of_key(const Tensor& x, std::int64_t j) const {
    return row<X>(x, k_, j, kv_head_);
  }
  const R* left(std::int64_t i) const { return of_query<R>(left_, i); }
  const R* right(std::int64_t j) const { return of_key<R>(right_, j); }
  const T* value(std::int64_t j) const { return of_key<T>(value_, j); }

  // Query i and keys [begin, end), for the loops.
  cpu::AdditiveRow keys(std::int64_t i, std::int64_t begin, std::int64_t end) const {
    return {left_.dtype(), left(i), vector_, right(begin), right_.dim(2) * right_.dim(3), end - begin, width()};
  }

  // Softmax weights of row i; all 0 without keys.
  void weigh(std::int64_t i, std::vector<R>& p) const {
    p.assign(static_cast<std::size_t>(k_.count), R(0));
    R top = -math::kInfinity<R>, total = 0;
    score(i, p);
    for (const R s : p) top = std::max(top, s);
    if (top == -math::kInfinity<R>) return p.assign(p.size(), R(0));
    for (R& s : p) total += s = s == -math::kInfinity<R> ? R(0) : math::exp(s - top);
    for (R& s : p) s /= total;
  }

 private:
  // Scores of the keys that the pattern keeps, run by run; -inf for the others.
  void score(std::int64_t i, std::vector<R>& s) const {
    for (std::int64_t begin = 0, end = 0; begin < k_.count; begin = end) {
      const std::int64_t position = i + k_.count - q_.count;
      const bool kept = pattern_->keep(position, begin);
      for (end = begin + 1; end < k_.count && pattern_->keep(position, end) == kept;) ++end;
      R* to = s.data() + begin;
      kept ? cpu::additive_scores(keys(i, begin, end), to) : std::fill(to, to + end - begin, -math::kInfinity<R>);
    }
  }

  const Pattern* pattern_;
  Sequences::Rows q_, k_;
  std::int64_t head_, kv_head_;
  const Tensor &left_, &right_, &value_;
  const R* vector_;
};

template <class T>
void attend_rows(const Context& context, const AttendAdditive& io) {
  using R = Wide<T>;
  const Tensor& o = io.o;
  const AdditivePairs& rows = *io.pairs;
  struct Task {
    std::size_t sequence;
    std::int64_t head, begin;
  };
  std::vector<Task> tasks;
  for (std::size_t s = 0; s < rows.queries.size(); ++s)
    for (std::int64_t head = 0; head < o.dim(2); ++head)
      for (std::int64_t begin = 0; begin < rows.queries[s].count; begin += kRows) tasks.push_back({s, head, begin});
  parallel_for(context, std::ssize(tasks), [&](std::int64_t index) {
    const Task& task = tasks[static_cast<std::size_t>(index)];
    const Head<T> head(rows, io.in, task.sequence, task.head);
    std::vector<R> p, sum(static_cast<std::size_t>(o.dim(3)));
    for (std::int64_t i = task.begin; i < std::min(task.begin + kRows, rows.queries[task.sequence].count); ++i) {
      head.weigh(i, p);
      std::fill(sum.begin(), sum.end(), R(0));
      for (std::size_t j = 0; j < p.size(); ++j) {
        if (p[j] == R(0)) continue;
        const T* value = head.value(static_cast<std::int64_t>(j));
        for (std::size_t c = 0; c < sum.size(); ++c) sum[c] += p[j] * static_cast<R>(value[c]);
      }
      T* to = head.template of_query<T>(o, i);
      for (std::size_t c = 0; c < sum.size(); ++c) to[c] = static_cast<T>(sum[c]);
    }
  });
}

// One row: p and d_o are at hand, ds_j = p_j (d_o . v_j - sum over k of p_k d_o . v_k).
template <class T>
void vjp_row(const Head<T>& head, std::int64_t i, std::vector<Wide<T>>& p, const T* d_o, const AdditiveInputs& d,
             Wide<T>* d_vector) {
  using R = Wide<T>;
  const std::int64_t d_v = d.value.dim(3);
  std::vector<R> dp(p.size(), R(0));
  R mean = 0;
  for (std::size_t j = 0; j < p.size(); ++j) {
    if (p[j] == R(0)) continue;
    const auto key = static_cast<std::int64_t>(j);
    const T* v = head.value(key);
    R* d_value = head.template of_key<R>(d.value, key);
    const R weight = p[j];
    R sum = 0;
#pragma omp simd reduction(+ : sum)
    for (std::int64_t c = 0; c < d_v; ++c) {
      sum += static_cast<R>(d_o[c]) * static_cast<R>(v[c]);
      d_value[c] += weight * static_cast<R>(d_o[c]);
    }
    dp[j] = sum;
    mean += p[j] * dp[j];
  }
  for (std::size_t j = 0; j < p.size(); ++j) dp[j] = p[j] == R(0) ? R(0) : p[j] * (dp[j] - mean);
  cpu::additive_vjp(head.keys(i, 0, std::ssize(p)), dp.data(),
                    {head.template of_query<R>(d.left, i), d_vector, head.template of_key<R>(d.right, 0)});
}

// Heads that share keys follow one another: their sums have one order.
template <class T>
void vjp_rows(const Context& context, const AttendAdditiveVjp& io) {
  const AdditivePairs& rows = *io.pairs;
  const std::int64_t heads = io.in.left.dim(2), kv_heads = io.in.right.dim(2), group = heads / kv_heads;
  parallel_for(context, std::ssize(rows.queries) * kv_heads, [&](std::int64_t unit) {
    const auto sequence = static_cast<std::size_t>(unit / kv_heads);
    std::vector<Wide<T>> p;
    for (std::int64_t h = unit % kv_heads * group; h < (unit % kv_heads + 1) * group; ++h) {
      const Head<T> head(rows, io.in, sequence, h);
      Wide<T>* d_vector = io.d.vector.data<Wide<T>>() + (unit / kv_heads * heads + h) * head.width();
      for (std::int64_t i = 0; i < rows.queries[sequence].count; ++i) {
        head.weigh(i, p);
        vjp_row<T>(head, i, p, head.template of_query<T>(io.d_o, i), io.d, d_vector);
      }
    }
  });
}

}  // namespace

template <>
void kernels::attend_additive<Device::cpu>(const Context& context, const AttendAdditive& io) {
  visit_float(io.o.dtype(), [&]<class T>() { attend_rows<T>(context, io); });
}

template <>
void kernels::attend_additive_backward<Device::cpu>(const Context& context, const AttendAdditiveVjp& io) {
  visit_float(io.in.value.dtype(), [&]<class T>() { vjp_rows<T>(context, io); });
}

}  // namespace fovea
