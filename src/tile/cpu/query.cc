#include "tile/query.h"

#include <algorithm>
#include <limits>
#include <vector>

#include "core/parallel.h"
#include "core/scratch.h"
#include "policy/math.h"
#include "tile/cpu/query_kernel.h"

namespace fovea::tile {
namespace {

constexpr std::int64_t kSpan = 128;  // tokens: 0.4 MB of keys in 12 heads of 64, and small sums beside it

// A stretch of the keys of one query.
struct Span {
  std::int64_t query, first, count;
};

std::vector<Span> spans_of(const Queries& all) {
  std::vector<Span> spans;
  for (std::size_t i = 0; i < all.queries.size(); ++i)
    for (std::int64_t first = 0; first < all.queries[i].n; first += kSpan)
      spans.push_back({static_cast<std::int64_t>(i), first, std::min(kSpan, all.queries[i].n - first)});
  return spans;
}

// Joins what the spans found of one head: parts of 2 + width floats, `stride` apart -> o.
template <class T>
void join(const float* parts, std::int64_t spans, std::int64_t stride, std::span<float> total, T* o) {
  float top = -std::numeric_limits<float>::infinity(), sum = 0.0f;
  for (std::int64_t s = 0; s < spans; ++s) top = std::max(parts[s * stride], top);
  std::fill(total.begin(), total.end(), 0.0f);
  for (std::int64_t s = 0; s < spans; ++s) {
    const float* part = parts + s * stride;
    const float factor = math::exp(part[0] - top);
    sum += factor * part[1];
    for (std::size_t i = 0; i < total.size(); ++i) total[i] += factor * part[2 + i];
  }
  for (std::size_t i = 0; i < total.size(); ++i) o[i] = T(spans > 0 ? total[i] / sum : 0.0f);
}

// The queries in f32, (queries, heads, d_k).
template <class T>
void widen(const Queries& all, float* to) {
  for (const Query& query : all.queries)
    for (std::int64_t h = 0; h < all.heads; ++h) {
      const T* from = static_cast<const T*>(query.q.data) + h * query.q.head;
      to = std::copy(from, from + all.d_k, to);
    }
}

template <class T>
void run(const Context& context, const Queries& all) {
  const auto size = [](std::int64_t count) { return static_cast<std::size_t>(count); };
  const std::int64_t count = std::ssize(all.queries), part = 2 + all.d_v, stride = all.heads * part;
  const std::vector<Span> spans = spans_of(all);
  const Scratch<float> q(context, size(count * all.heads * all.d_k)), parts(context, spans.size() * size(stride)),
      scores(context, spans.size() * size(all.heads * kSpan));
  widen<T>(all, q.data());
  parallel_for(context, std::ssize(spans), [&](std::int64_t s) {
    const Span& span = spans[size(s)];
    cpu::attend_span({all, all.queries[size(span.query)], q.data() + span.query * all.heads * all.d_k, span.first,
                      span.count, scores.data() + s * all.heads * kSpan, parts.data() + s * stride});
  });
  const float* from = parts.data();
  std::vector<float> total(size(all.d_v));
  for (const Query& query : all.queries) {
    const std::int64_t own = (query.n + kSpan - 1) / kSpan;
    for (std::int64_t h = 0; h < all.heads; ++h)
      join(from + h * part, own, stride, total, static_cast<T*>(query.o.data) + h * query.o.head);
    from += own * stride;
  }
}

}  // namespace

template <>
void attend_queries<Device::cpu>(const Context& context, const Queries& queries) {
  queries.dtype == DType::bf16 ? run<bf16>(context, queries) : run<float>(context, queries);
}

}  // namespace fovea::tile
