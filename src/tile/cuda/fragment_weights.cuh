#pragma once

#include "core/cuda/mma.cuh"
#include "tile/cuda/weigh.cuh"

// Weights of fragments of 16 x 8 pairs with every option: element e of a lane is row row_of(e), column column_of(e).
// By rows the rows are queries and the columns keys; by columns the other way round. All lanes of a warp take part.
namespace fovea::tile::cuda {

using namespace device;  // NOLINT: what the engines on a card share

// Dropout of a fragment. Four neighbouring keys share a call of Philox, and stand in two lanes or in four: each makes
// one of the calls that they need, and hands on what is the others'.
struct FragmentDropper {
  Dropper<float> each;
  bool shares;  // are keys of the array neighbours here, in quads that begin where fragments do?

  __device__ FragmentDropper(const Call& call, const PieceView& piece, std::int32_t head)
      : each(call, piece, head), shares(piece.k_step == 1 && (call.first_key + piece.k0) % 4 == 0) {}

  // `first`: the fragment's first pair, whose key is a multiple of 8.
  template <bool kByColumns>
  __device__ __forceinline__ void draw(Pair first, float (&factors)[4]) const {
    if constexpr (kByColumns) {
      if (shares) return among_four(first, factors);
#pragma unroll
      for (int e = 0; e < 4; ++e) factors[e] = each(at<true>(first, e));
    } else {
      if (shares) return among_two(first, factors);
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        float two[2];
        each.draw(at<false>(first, 2 * half), two);
        factors[2 * half] = two[0], factors[2 * half + 1] = two[1];
      }
    }
  }
  template <bool kByColumns>
  __device__ __forceinline__ static Pair at(Pair first, int e) {
    return kByColumns ? Pair{first.query + column_of(e), first.key + row_of(e)}
                      : Pair{first.query + row_of(e), first.key + column_of(e)};
  }

 private:
  // A lane's keys are half a quad: the lane with the first half calls for the upper row, the other for the lower.
  __device__ __forceinline__ void among_two(Pair first, float (&factors)[4]) const {
    const bool second = lane() % 2 != 0;
    const Philox own = each.words({first.query + row_of(second ? 2 : 0), first.key + lane() % 4 / 2 * 4});
    const std::uint32_t* w = own.word;
    const std::uint32_t low = __shfl_xor_sync(0xffffffffu, second ? w[0] : w[2], 1);
    const std::uint32_t high = __shfl_xor_sync(0xffffffffu, second ? w[1] : w[3], 1);
    factors[0] = each.factor_of(second ? low : w[0]);
    factors[1] = each.factor_of(second ? high : w[1]);
    factors[2] = each.factor_of(second ? w[2] : low);
    factors[3] = each.factor_of(second ? w[3] : high);
  }
  // Four lanes have a key of a quad each; lane j of them calls for what is everyone's element j, and keeps word j.
  __device__ __forceinline__ void among_four(Pair first, float (&factors)[4]) const {
    const int own = lane() / 4 % 4;
    const Philox words =
        each.words({first.query + lane() % 4 * 2 + own % 2, first.key + lane() / 16 * 4 + own / 2 * 8});
    std::uint32_t mine[4] = {};
#pragma unroll
    for (int round = 0; round < 4; ++round) {
      const int other = own ^ round;
      std::uint32_t word = words.word[0];  // that of `other`: a register array has no run-time index
#pragma unroll
      for (int i = 1; i < 4; ++i) word = other == i ? words.word[i] : word;
      word = __shfl_xor_sync(0xffffffffu, word, round * 4);
#pragma unroll
      for (int i = 0; i < 4; ++i) mine[i] = other == i ? word : mine[i];
    }
#pragma unroll
    for (int e = 0; e < 4; ++e) factors[e] = each.factor_of(mine[e]);
  }
};

// Scores of softmax under a bias, without ALiBi: as Modifier has them, two neighbouring keys in one load where they
// can.
struct FragmentBias {
  const float* data = nullptr;  // of the piece's first pair
  std::int64_t query = 0, key = 0;
  float scale, unit;
  bool in_pairs;

  __device__ FragmentBias(const Call& call, const PieceView& piece, std::int32_t head)
      : scale(call.score_scale), unit(static_cast<float>(call.unit)) {
    const Modifier<float> whole(call, piece, head);
    data = whole.bias, query = whole.bias_query, key = whole.bias_key;
    in_pairs = key == 1 && query % 2 == 0 && reinterpret_cast<std::uintptr_t>(data) % 8 == 0;
  }
  // Products become scores; those of pairs that are not kept are -infinity, and their bias is not read.
  template <bool kByColumns>
  __device__ __forceinline__ void apply(Pair first, float (&s)[4]) const {
    constexpr float kNone = -math::kInfinity<float>;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const Pair at = FragmentDropper::at<kByColumns>(first, 2 * half);
      float& x = s[2 * half];
      float& y = s[2 * half + 1];
      const bool has_x = x != kNone, has_y = y != kNone;
      float b[2] = {0, 0};
      if (data != nullptr) {
        const float* const from = data + at.query * query + at.key * key;
        if (!kByColumns && in_pairs && has_x && has_y) {
          const float2 both = *reinterpret_cast<const float2*>(from);
          b[0] = both.x, b[1] = both.y;
        } else {
          b[0] = has_x ? from[0] : 0.0f;
          b[1] = has_y ? from[kByColumns ? query : key] : 0.0f;
        }
      }
      x = has_x && b[0] != kNone ? fmaf(unit, b[0], x * scale) : kNone;
      y = has_y && b[1] != kNone ? fmaf(unit, b[1], y * scale) : kNone;
    }
  }
};

}  // namespace fovea::tile::cuda
