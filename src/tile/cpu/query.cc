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
  for (std::size_t i = 0; i < total.size(); ++i) o[i] = T(total[i] / sum);
}

template <class T>
void run(const Context& context, const Query& query) {
  const auto size = [](std::int64_t count) { return static_cast<std::size_t>(count); };
  const std::int64_t spans = (query.n + kSpan - 1) / kSpan, part = 2 + query.d_v, stride = query.heads * part;
  const T* from = static_cast<const T*>(query.q);
  const std::vector<float> q(from, from + query.heads * query.d_k);
  const Scratch<float> parts(context, size(spans * stride));
  parallel_for(context, spans, [&](std::int64_t s) {
    const std::int64_t first = s * kSpan, count = std::min(kSpan, query.n - first);
    std::vector<float> scores(size(query.heads * count));
    cpu::attend_span({query, q.data(), first, count, scores.data(), parts.data() + s * stride});
  });
  std::vector<float> total(size(query.d_v));
  for (std::int64_t h = 0; h < query.heads; ++h)
    join(parts.data() + h * part, spans, stride, total, static_cast<T*>(query.o) + h * query.d_v);
}

}  // namespace

template <>
void attend_query<Device::cpu>(const Context& context, const Query& query) {
  query.dtype == DType::bf16 ? run<bf16>(context, query) : run<float>(context, query);
}

}  // namespace fovea::tile
