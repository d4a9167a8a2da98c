#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tile/cpu/query_kernel.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep

#include "hwy/highway.h"
#include "policy/math.h"
#include "tile/cpu/query_kernel.h"

HWY_BEFORE_NAMESPACE();
namespace fovea {
namespace HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;

using tile::cpu::QuerySpan;
using D = hn::ScalableTag<float>;

HWY_INLINE hn::Vec<D> load(const float* x) { return hn::LoadU(D(), x); }
HWY_INLINE hn::Vec<D> load(const bf16* x) {
  const hn::RebindToUnsigned<D> du;
  const hn::Rebind<std::uint16_t, D> d16;
  const auto bits = hn::LoadU(d16, reinterpret_cast<const std::uint16_t*>(x));
  return hn::BitCast(D(), hn::ShiftLeft<16>(hn::PromoteTo(du, bits)));
}

template <class T>
HWY_INLINE float dot(const float* HWY_RESTRICT q, const T* HWY_RESTRICT k, std::size_t width) {
  const std::size_t lanes = hn::Lanes(D());
  auto sums = hn::Zero(D());
  std::size_t i = 0;
  for (; i + lanes <= width; i += lanes) sums = hn::MulAdd(load(q + i), load(k + i), sums);
  float sum = hn::GetLane(hn::SumOfLanes(D(), sums));
  for (; i < width; ++i) sum += q[i] * static_cast<float>(k[i]);
  return sum;
}

template <class T>
HWY_INLINE void add_scaled(float weight, const T* HWY_RESTRICT v, float* HWY_RESTRICT o, std::size_t width) {
  const std::size_t lanes = hn::Lanes(D());
  const auto factor = hn::Set(D(), weight);
  std::size_t i = 0;
  for (; i + lanes <= width; i += lanes) hn::StoreU(hn::MulAdd(factor, load(v + i), hn::LoadU(D(), o + i)), D(), o + i);
  for (; i < width; ++i) o[i] += weight * static_cast<float>(v[i]);
}

// Scores of a head become weights, relative to their largest; gives that and their sum.
HWY_INLINE void to_weights(float* HWY_RESTRICT scores, std::int64_t count, float* HWY_RESTRICT top_and_sum) {
  float top = -math::kInfinity<float>, sum = 0.0f;
  for (std::int64_t t = 0; t < count; ++t) top = math::larger(scores[t], top);
  for (std::int64_t t = 0; t < count; ++t) scores[t] = math::exp(scores[t] - top);
  for (std::int64_t t = 0; t < count; ++t) sum += scores[t];
  top_and_sum[0] = top;
  top_and_sum[1] = sum;
}

// Keys of the span token by token, all heads of a token side by side as they lie in memory; then the values.
template <class T>
void attend(const QuerySpan& span) {
  const tile::Queries& all = span.all;
  const tile::In &k = span.query.keys, &v = span.query.values;
  const std::int64_t group = all.heads / all.kv_heads, part = 2 + all.d_v;
  const auto d_k = static_cast<std::size_t>(all.d_k), d_v = static_cast<std::size_t>(all.d_v);
  const auto scale = static_cast<float>(all.scale);
  const T* keys = static_cast<const T*>(k.data) + span.first * k.row;
  for (std::int64_t t = 0; t < span.count; ++t, keys += k.row)
    for (std::int64_t h = 0; h < all.heads; ++h)
      span.scores[h * span.count + t] = scale * dot(span.q + h * all.d_k, keys + h / group * k.head, d_k);
  for (std::int64_t h = 0; h < all.heads; ++h) {
    float* out = span.out + h * part;
    to_weights(span.scores + h * span.count, span.count, out);
    for (std::int64_t i = 2; i < part; ++i) out[i] = 0.0f;
  }
  const T* values = static_cast<const T*>(v.data) + span.first * v.row;
  for (std::int64_t t = 0; t < span.count; ++t, values += v.row)
    for (std::int64_t h = 0; h < all.heads; ++h)
      add_scaled(span.scores[h * span.count + t], values + h / group * v.head, span.out + h * part + 2, d_v);
}

void attend_f32(const QuerySpan& span) { attend<float>(span); }
void attend_bf16(const QuerySpan& span) { attend<bf16>(span); }

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace fovea
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace fovea::tile {

HWY_EXPORT(attend_f32);
HWY_EXPORT(attend_bf16);

void cpu::attend_span(const QuerySpan& span) {
  span.all.dtype == DType::bf16 ? HWY_DYNAMIC_DISPATCH(attend_bf16)(span) : HWY_DYNAMIC_DISPATCH(attend_f32)(span);
}

}  // namespace fovea::tile
#endif  // HWY_ONCE
