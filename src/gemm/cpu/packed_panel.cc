#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "gemm/cpu/packed_panel.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep

#include "gemm/cpu/packed_panel.h"
#include "hwy/highway.h"
#include "simd/product-inl.h"

#define FOVEA_UNROLLED __attribute__((always_inline))  // see simd/product-inl.h

HWY_BEFORE_NAMESPACE();
namespace fovea {
namespace HWY_NAMESPACE {
namespace {

using gemm::cpu::Panel;

using D = hn::CappedTag<float, 16>;
using V = hn::Vec<D>;
constexpr int kLanes = static_cast<int>(hn::MaxLanes(D()));
constexpr int kHalf = 16 / kLanes;  // vectors of half a panel
// Rows whose sums stay in registers.
constexpr int kRows = kLanes == 16 ? 8 : 2;

// Weights of one input: vectors [0, kHalf) are outputs 0 .. 15, the others 16 .. 31.
struct F32 {
  using Stored = float;
  static constexpr int kStored = 32;  // of one input
  static HWY_INLINE void load(const Stored* w, V* values) {
    unroll<2 * kHalf>([&](auto i) FOVEA_UNROLLED { values[i] = hn::LoadU(D(), w + i * kLanes); });
  }
};
struct Bf16 {
  using Stored = std::uint32_t;
  static constexpr int kStored = 16;
  static HWY_INLINE void load(const Stored* w, V* values) {
    const hn::RebindToUnsigned<D> du;
    const auto high = hn::Set(du, 0xffff0000u);
    unroll<kHalf>([&](auto i) FOVEA_UNROLLED {
      const auto words = hn::LoadU(du, w + i * kLanes);
      values[i] = hn::BitCast(D(), hn::ShiftLeft<16>(words));
      values[kHalf + i] = hn::BitCast(D(), hn::And(words, high));
    });
  }
};
struct Int8 {
  using Stored = std::int8_t;
  static constexpr int kStored = 32;
  static HWY_INLINE void load(const Stored* w, V* values) {
    const hn::RebindToSigned<D> di;
    const hn::Rebind<std::int8_t, D> d8;
    unroll<2 * kHalf>([&](auto i) FOVEA_UNROLLED {
      values[i] = hn::ConvertTo(D(), hn::PromoteTo(di, hn::LoadU(d8, w + i * kLanes)));
    });
  }
};

// Weights are read once, in order; every one is used for all rows while it is in a register.
template <class Kind, int kCount>
HWY_NOINLINE void multiply_rows(const Panel& panel, const float* HWY_RESTRICT x, float* HWY_RESTRICT y) {
  constexpr int kVectors = 2 * kHalf;
  const D d;
  const auto* w = static_cast<const typename Kind::Stored*>(panel.weights);
  V sums[kCount * kVectors], values[kVectors];
  unroll<kCount * kVectors>([&](auto i) FOVEA_UNROLLED { sums[i] = hn::Zero(d); });
  for (std::int64_t k = 0; k < panel.in; ++k, w += Kind::kStored) {
    Kind::load(w, values);
    unroll<kCount>([&](auto r) FOVEA_UNROLLED {
      const V factor = hn::Set(d, x[r * panel.in + k]);
      unroll<kVectors>([&](auto i) FOVEA_UNROLLED {
        sums[r * kVectors + i] = hn::MulAdd(factor, values[i], sums[r * kVectors + i]);
      });
    });
  }
  unroll<kCount * kVectors>([&](auto i) FOVEA_UNROLLED {
    constexpr int kColumn = i % kVectors * kLanes, kRow = i / kVectors;
    const V scale = panel.scales == nullptr ? hn::Set(d, 1.0f) : hn::LoadU(d, panel.scales + kColumn);
    hn::StoreU(hn::Mul(sums[i], scale), d, y + kRow * 32 + kColumn);
  });
}

template <class Kind, int kCount>
void multiply_from(const Panel& panel, std::int64_t row) {
  const std::int64_t left = panel.rows - row;
  if constexpr (kCount > 1)
    if (left < kCount) return multiply_from<Kind, kCount - 1>(panel, row);
  multiply_rows<Kind, kCount>(panel, panel.x + row * panel.in, panel.y + row * 32);
  if (left > kCount) multiply_from<Kind, kRows>(panel, row + kCount);
}

void f32_panel(const Panel& panel) { multiply_from<F32, kRows>(panel, 0); }
void bf16_panel(const Panel& panel) { multiply_from<Bf16, kRows>(panel, 0); }
void i8_panel(const Panel& panel) { multiply_from<Int8, kRows>(panel, 0); }

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace fovea
HWY_AFTER_NAMESPACE();
#undef FOVEA_UNROLLED

#if HWY_ONCE
namespace fovea::gemm {

HWY_EXPORT(f32_panel);
HWY_EXPORT(bf16_panel);
HWY_EXPORT(i8_panel);

void cpu::multiply_f32(const Panel& panel) { HWY_DYNAMIC_DISPATCH(f32_panel)(panel); }
void cpu::multiply_bf16(const Panel& panel) { HWY_DYNAMIC_DISPATCH(bf16_panel)(panel); }
void cpu::multiply_i8(const Panel& panel) { HWY_DYNAMIC_DISPATCH(i8_panel)(panel); }

}  // namespace fovea::gemm
#endif  // HWY_ONCE
