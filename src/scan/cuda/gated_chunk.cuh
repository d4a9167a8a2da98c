#pragma once

#include "scan/cuda/mma_place.cuh"

// Chunks of rows under a decay of steps or channels. A chunk of kD rows falls into parts of 16, as many as the block
// has warps. Within a part, with G_t the sum of the logs from its first row to t (never positive):
//
//   rows of queries leave for the state as q e^G_i, keys as k e^(G_15 - G_j), and the state fades by e^G_15;
//   pairs of the part are weighed with e^(G_i - G_j), exactly.
//
// Every warp walks over the parts with 16 columns of the results and the part of the state that they need, transposed,
// in its registers: the product of one part is the first operand of the next. Warps meet only to prepare a chunk.
namespace fovea::scan::cuda {

inline constexpr int kPart = 16;

// Numbers in f32 for every row and channel of a chunk. Rows lie in other banks each.
template <int kD>
struct ChannelTable {
  static constexpr int kPitch = kD + 4, kBytes = kD * kPitch * 4, kSpare = kD;  // a column of its own
  float* data;

  __device__ __forceinline__ float& at(int row, int column) const { return data[row * kPitch + column]; }
  __device__ __forceinline__ float4 four(int row, int column) const {
    return *reinterpret_cast<const float4*>(data + row * kPitch + column);
  }
};

// Starts to copy the logs of a chunk's rows: by channel, or one for each step into the spare column.
template <int kD>
__device__ __forceinline__ void fetch_logs(const ChannelTable<kD>& to, const MmaPlace<kD>& at, std::int64_t first) {
  const In& logs = at.call.log_decay;
  const auto* from =
      static_cast<const float*>(logs.data) + offset_of(logs, at.piece.batch, at.piece.k0 + first, at.kv_head);
  const int count = at.count(first), thread = static_cast<int>(threadIdx.x);
  const std::uint32_t base = static_cast<std::uint32_t>(__cvta_generic_to_shared(to.data));
  if (at.call.decay == Decay::step) {
    if (thread >= kD) return;
    copy4(base + static_cast<std::uint32_t>((thread * to.kPitch + to.kSpare) * 4),
          thread < count ? from + thread * logs.row : from, thread < count);
    return;
  }
  constexpr int kFours = kD / 4;
#pragma unroll
  for (int e = thread; e < kD * kFours; e += 2 * kD) {
    const int row = e / kFours, column = e % kFours * 4;
    copy16(base + static_cast<std::uint32_t>((row * to.kPitch + column) * 4),
           row < count ? from + row * logs.row + column : from, row < count);
  }
}

// The columns of a warp: every lane has one of its 16 channels, in the parts first_part(), + 2, ...
template <int kD>
struct ChannelLane {
  static constexpr int kParts = kD / kPart;
  __device__ __forceinline__ static int channel() { return warp() * 16 + lane() % 16; }
  __device__ __forceinline__ static int first_part() { return lane() / 16; }
};

// Logs become their sums from the first row of each part on, in powers of 2. totals[part][channel]: the last as a
// factor. A log below -150 is as good as -150, and sums keep their digits. steps: of odd rows, 2 i + 1 in row i, the
// row's own factor; null: not wanted.
template <int kD>
__device__ __forceinline__ void sum_logs(const ChannelTable<kD>& logs, float* totals, bool by_step,
                                         const ChannelTable<kD>& steps) {
  const int c = ChannelLane<kD>::channel();
  for (int part = ChannelLane<kD>::first_part(); part < kD / kPart; part += 2) {
    float log[kPart], sum = 0;
#pragma unroll
    for (int i = 0; i < kPart; ++i) log[i] = logs.at(part * kPart + i, by_step ? logs.kSpare : c);
#pragma unroll
    for (int i = 0; i < kPart; ++i) {
      log[i] *= math::kLog2e<float>;
      log[i] = log[i] < -150.0f ? -150.0f : log[i];
      sum += log[i];
      logs.at(part * kPart + i, c) = sum;
    }
    totals[part * kD + c] = quick_exp2(sum);
    if (steps.data == nullptr) continue;
#pragma unroll
    for (int i = 1; i < kPart; i += 2) steps.at((part * kPart + i) / 2, c) = quick_exp2(log[i]);
  }
}

template <int kD>
__device__ __forceinline__ std::uint32_t element_at(const SharedTile<kD>& tile, int row, int column) {
  return tile.at(row, column / 8) + static_cast<std::uint32_t>(column % 8 * 2);
}
template <int kD>
__device__ __forceinline__ float load_element(const SharedTile<kD>& tile, int row, int column) {
  return low_of(load_shared_half(element_at(tile, row, column)));
}

// Rows as they leave for the state, a lane's column of a part. of_keys: from the part's end, else from its begin.
template <int kD>
__device__ __forceinline__ void fade_rows(const SharedTile<kD>& from, const SharedTile<kD>& to,
                                          const ChannelTable<kD>& logs, int part, bool of_keys) {
  const int c = ChannelLane<kD>::channel();
  const float last = logs.at(part * kPart + kPart - 1, c);
  float x[kPart];
#pragma unroll
  for (int i = 0; i < kPart; ++i) x[i] = load_element(from, part * kPart + i, c);
#pragma unroll
  for (int i = 0; i < kPart; ++i) {
    const float sum = logs.at(part * kPart + i, c);
    x[i] *= quick_exp2(of_keys ? last - sum : sum);
  }
#pragma unroll
  for (int i = 0; i < kPart; ++i) store_shared_half(pack<bfloat16>(x[i], 0), element_at(to, part * kPart + i, c));
}

// What the 16 x 16 products of rows with rows of a part are kept in, f32; one behind the other by part.
struct PairTable {
  static constexpr int kBytes = kPart * kPart * 4;
  float* data;
  __device__ __forceinline__ float& at(int row, int column) const { return data[row * kPart + column]; }
  __device__ __forceinline__ float4 four(int row, int column) const {
    return *reinterpret_cast<const float4*>(data + row * kPart + column);
  }
};

// The gradients that the pairs of a part give a lane's column of queries (or, from the back, of keys):
//   out_i = sum over j <= i of p_ij e^(G_i - G_j) x_j, row by row, each weight a product of factors of at most 1.
// From the back p and rows count from the part's end.
template <int kD, bool kBack>
__device__ __forceinline__ void vjp_pairs(const ChannelTable<kD>& out, const SharedTile<kD>& x, const PairTable& p,
                                          const ChannelTable<kD>& logs, int part) {
  const int c = ChannelLane<kD>::channel();
  const auto row = [&](int i) { return part * kPart + (kBack ? kPart - 1 - i : i); };
  float faded[kPart] = {};
  float before = 0;
#pragma unroll
  for (int i = 0; i < kPart; ++i) {
    const float sum = logs.at(row(i), c), fade = quick_exp2(kBack ? before - sum : sum - before);
    before = sum;
    faded[i] = load_element(x, row(i), c);
#pragma unroll
    for (int j = 0; j < i; ++j) faded[j] *= fade;
    float total = 0;
#pragma unroll
    for (int j = 0; j <= i; j += 4) {  // faded is zero behind i
      const float4 four = p.four(i, j);
      total += four.x * faded[j] + four.y * faded[j + 1] + (four.z * faded[j + 2] + four.w * faded[j + 3]);
    }
    out.at(row(i), c) = total;
  }
}

// Products of the rows of a warp's own part of x with those of y up to them; from the back both count from the part's
// end. rest: what x lost as bf16; may be null.
template <int kD, bool kBack>
__device__ __forceinline__ void put_products(const PairTable& to, const SharedTile<kD>& x, const SharedTile<kD>* rest,
                                             const SharedTile<kD>& y) {
  float products[2][4];
  clear(products);
  score_block<kD>(products, x, warp() * kPart, y, warp() * kPart);
  if (rest != nullptr) score_block<kD>(products, *rest, warp() * kPart, y, warp() * kPart);
#pragma unroll
  for (int half = 0; half < 2; ++half)
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      const int i = row_of(e), j = 8 * half + column_of(e);
      to.at(kBack ? kPart - 1 - j : i, kBack ? kPart - 1 - i : j) = j <= i ? products[half][e] : 0.0f;
    }
}

// The weights of a part's pairs as a 16 x 16 tile of bf16, zero above the diagonal.
struct WeightTile {
  static constexpr int kBytes = kPart * kPart * 2;
  std::uint32_t base;

  __device__ __forceinline__ std::uint32_t at(int row, int piece) const {
    return base + static_cast<std::uint32_t>(row * 32 + piece * 16);
  }
  // Second operands of products with the tile's transpose, and with the tile.
  __device__ __forceinline__ void across(std::uint32_t (&b)[4]) const {
    load_matrices(b, at(lane() % 8 + lane() / 16 * 8, lane() / 8 % 2));
  }
  __device__ __forceinline__ void along(std::uint32_t (&b)[4]) const {
    load_transposed(b, at(lane() % 16, lane() / 16));
  }
};

// Two rows against two of a part, the pairs of a lane below the diagonal: 28 lanes have a square each, of rows i and
// columns j from even ones on; the others two pairs that touch the diagonal, (i[0], j[0]) and (i[1], j[1]).
struct LanePairs {
  int i[2], j[2];
  bool is_square;

  __device__ __forceinline__ LanePairs() : is_square(lane() < 28) {
    int a = 1, b = lane();
    while (is_square && b >= a) b -= a++;
    const int corner = 4 * (lane() - 28);
    i[0] = is_square ? 2 * a : corner + 1;
    i[1] = is_square ? 2 * a + 1 : corner + 3;
    j[0] = is_square ? 2 * b : corner;
    j[1] = is_square ? 2 * b + 1 : corner + 2;
  }
};
// 8 channels of a row.
struct PieceRow {
  float x[8];

  template <int kD>
  __device__ __forceinline__ PieceRow(const SharedTile<kD>& tile, int row, int piece) {
    std::uint32_t r[4];
    load_shared(r, tile.at(row, piece));
#pragma unroll
    for (int c = 0; c < 4; ++c) x[2 * c] = low_of(r[c]), x[2 * c + 1] = high_of(r[c]);
  }
  template <int kD>
  __device__ __forceinline__ PieceRow(const ChannelTable<kD>& table, int row, int piece) {
    const float4 a = table.four(row, piece * 8), b = table.four(row, piece * 8 + 4);
    x[0] = a.x, x[1] = a.y, x[2] = a.z, x[3] = a.w;
    x[4] = b.x, x[5] = b.y, x[6] = b.z, x[7] = b.w;
  }
};

// Weighs the pairs of a warp's own part: sums over channels of q_i k_j e^(G_i - G_j). Of a square the nearest pair has
// an exponential, and the factors of single steps lead to the others; pairs at the diagonal have such a factor alone.
// Two lanes share each pair on it.
template <int kD>
__device__ __forceinline__ void put_weights(const WeightTile& to, const SharedTile<kD>& q, const SharedTile<kD>& k,
                                            const ChannelTable<kD>& logs, const ChannelTable<kD>& steps) {
  const int first = warp() * kPart;
  const LanePairs own;
  const int from = first + (own.is_square ? own.j[1] : own.i[0]);  // where the nearest pair's decay begins; odd
  float sums[2][2] = {{0, 0}, {0, 0}}, same = 0;
#pragma unroll 1
  for (int piece = 0; piece < kD / 8; ++piece) {
    const PieceRow sum(logs, first + own.i[0], piece), before(logs, from, piece);
    const PieceRow step(steps, from / 2, piece), last(steps, (first + own.i[1]) / 2, piece);
    const PieceRow q0(q, first + own.i[0], piece), q1(q, first + own.i[1], piece);
    const PieceRow k0(k, first + own.j[0], piece), k1(k, first + own.j[1], piece);
#pragma unroll
    for (int c = 0; c < 8; ++c) {
      const float nearest = quick_exp2(sum.x[c] - before.x[c]);
      const float upper = q0.x[c] * nearest, lower = q1.x[c] * (nearest * last.x[c]), far = k0.x[c] * step.x[c];
      sums[0][0] += upper * far, sums[0][1] += upper * k1.x[c];
      sums[1][0] += lower * far, sums[1][1] += lower * k1.x[c];
    }
    if (piece % 2 != lane() % 2) continue;
    const PieceRow x(q, first + lane() / 2, piece), y(k, first + lane() / 2, piece);
#pragma unroll
    for (int c = 0; c < 8; ++c) same += x.x[c] * y.x[c];
  }
  same += __shfl_xor_sync(0xffffffffu, same, 1);
  const auto put = [&](int i, int j, float x) {
    store_shared_half(pack<bfloat16>(x, 0), to.base + static_cast<std::uint32_t>(i * 32 + j * 2));
  };
  const std::uint32_t zeros[4] = {0, 0, 0, 0};
  store_shared(zeros, to.base + static_cast<std::uint32_t>(lane() * 16));
  __syncwarp();
#pragma unroll
  for (int r = 0; r < 2; ++r)
#pragma unroll
    for (int s = 0; s < 2; ++s)
      if (own.is_square || r == s) put(own.i[r], own.j[s], sums[r][s]);
  if (lane() % 2 == 0) put(lane() / 2, lane() / 2, same);
}

// 16 rows of a transposed state in a warp's registers: of columns of values (kOfValues), all channels; else of
// channels, all columns of values.
template <int kD, bool kOfValues>
struct StateSlice {
  float s[kD / 8][4];

  __device__ __forceinline__ static std::int64_t place(int n, int e) {
    const std::int64_t row = warp() * 16 + row_of(e), column = 8 * n + column_of(e);
    return kOfValues ? column * kD + row : row * kD + column;
  }
  __device__ __forceinline__ void load(const float* state) {
#pragma unroll
    for (int n = 0; n < kD / 8; ++n)
#pragma unroll
      for (int e = 0; e < 4; ++e) s[n][e] = state == nullptr ? 0.0f : state[place(n, e)];
  }
  __device__ __forceinline__ void save(float* state) const {
#pragma unroll
    for (int n = 0; n < kD / 8; ++n)
#pragma unroll
      for (int e = 0; e < 4; ++e) state[place(n, e)] = s[n][e];
  }
  // out += s x^T over rows [row, row + 16) of x; kPair: what the state loses as bf16 too.
  template <bool kPair>
  __device__ __forceinline__ void read(float (&out)[2][4], const SharedTile<kD>& x, int row) const {
    float rests[2][4];  // a sum of its own: two chains wait half as long as one
    clear(rests);
#pragma unroll
    for (int step = 0; step < kD / 16; ++step) {
      std::uint32_t a[4], b[4];
      float part[2][4];
      x.across(b, row, step);
#pragma unroll
      for (int half = 0; half < 2; ++half)
#pragma unroll
        for (int e = 0; e < 4; ++e) part[half][e] = s[2 * step + half][e];
      pack_block(a, part);
      multiply_add<bfloat16>(out[0], a, b[0], b[1]);
      multiply_add<bfloat16>(out[1], a, b[2], b[3]);
      if constexpr (kPair) {
        keep_rest(part);
        pack_block(a, part);
        multiply_add<bfloat16>(rests[0], a, b[0], b[1]);
        multiply_add<bfloat16>(rests[1], a, b[2], b[3]);
      }
    }
#pragma unroll
    for (int n = 0; kPair && n < 2; ++n)
#pragma unroll
      for (int e = 0; e < 4; ++e) out[n][e] += rests[n][e];
  }
  // Fades over a part and takes its rows in: += y^T x with own columns of y as first operands.
  __device__ __forceinline__ void add(const float* totals, const std::uint32_t (&y)[4], const SharedTile<kD>& x,
                                      int row) {
    if constexpr (kOfValues) {
#pragma unroll
      for (int n = 0; n < kD / 8; ++n) {
        const float2 fade = *reinterpret_cast<const float2*>(totals + 8 * n + lane() % 4 * 2);
        s[n][0] *= fade.x, s[n][1] *= fade.y, s[n][2] *= fade.x, s[n][3] *= fade.y;
      }
    } else {
      scale_rows(s, totals[warp() * 16 + lane() / 4], totals[warp() * 16 + lane() / 4 + 8]);
    }
    add_along<kD>(s, y, x, row);
  }
};

// Writes 16 transposed rows of own columns in f32: eight lanes have 32 bytes of a row.
__device__ __forceinline__ void store_wide_slice(const float (&acc)[2][4], float* to, std::int64_t stride,
                                                 const Range& range) {
#pragma unroll
  for (int n = 0; n < 2; ++n)
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      const int row = 8 * n + column_of(e);
      if (row >= range.begin && row < range.end) to[row * stride + warp() * 16 + row_of(e)] = acc[n][e];
    }
}

// Writes 16 transposed rows of own columns, through 512 bytes that belong to the warp. `to`: the first row's.
__device__ __forceinline__ void store_slice(std::uint32_t room, const float (&acc)[2][4], bfloat16* to,
                                            std::int64_t stride, const Range& range) {
  __syncwarp();
#pragma unroll
  for (int n = 0; n < 2; ++n)
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const std::uint32_t pair = transpose(pack<bfloat16>(acc[n][2 * half], acc[n][2 * half + 1]));
      store_shared(pair, room + static_cast<std::uint32_t>((8 * n + lane() / 4) * 32 + half * 16 + lane() % 4 * 4));
    }
  __syncwarp();
  const int row = lane() / 2;
  if (row >= range.begin && row < range.end) {
    std::uint32_t r[4];
    load_shared(r, room + static_cast<std::uint32_t>(lane() * 16));
    *reinterpret_cast<uint4*>(to + row * stride + warp() * 16 + lane() % 2 * 8) = {r[0], r[1], r[2], r[3]};
  }
}

}  // namespace fovea::scan::cuda
