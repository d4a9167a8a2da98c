#pragma once

#include "core/cuda/memory.h"
#include "scan/cuda/walk.h"

namespace fovea::scan::cuda {

enum class Fade : std::uint8_t { none, alike, by_x };  // how T decays: not at all, alike in each column, row by row

inline constexpr int kStage = 16;  // rows on the way at a time

template <class R>
struct WalkStage {
  R x[kStage][kTile], y[kStage][kTile], r[kStage][kTile], decay[kStage][kTile];
};

// Where a block stands: its piece, heads and part of the state.
struct WalkPlace {
  const PieceView& piece;
  Cut cut;
  std::int32_t head, kv_head, x0, y0, x_count, y_count;
  bool x_is_channel;

  __device__ WalkPlace(const Call& call, const Walk& walk)
      : piece(call.pieces[walk.cuts.data[blockIdx.x].piece]), cut(walk.cuts.data[blockIdx.x]) {
    head = static_cast<std::int32_t>(blockIdx.y);
    kv_head = walk.by_kv_head ? head : call.kv_head_of(head);
    const Source along = walk.step == Step::read ? walk.r : walk.x;
    x_is_channel = along == Source::keys || along == Source::queries;
    const std::int32_t x_width = x_is_channel ? call.d_k : call.width, y_width = x_is_channel ? call.width : call.d_k;
    const std::int32_t y_tiles = (y_width + kTile - 1) / kTile;
    x0 = static_cast<std::int32_t>(blockIdx.z) / y_tiles * kTile;
    y0 = static_cast<std::int32_t>(blockIdx.z) % y_tiles * kTile;
    x_count = min(kTile, x_width - x0);
    y_count = min(kTile, y_width - y0);
  }
  __device__ std::int32_t head_of(Source source) const { return is_of_queries(source) ? head : kv_head; }
  __device__ std::int64_t row_of(Source source, std::int64_t t) const {
    return is_of_queries(source) ? t - piece.shift : t;
  }
  // Where the element (x, y) of the part lies in a state.
  __device__ std::int64_t element(const Call& call, int x, int y) const {
    return x_is_channel ? std::int64_t{x0 + x} * call.width + y0 + y : std::int64_t{y0 + y} * call.width + x0 + x;
  }
  template <class Pointer>
  __device__ std::int64_t state(const Call& call, const Walk& walk, const States<Pointer>& states) const {
    const std::int64_t heads = walk.state_by_kv_head || states.of_first ? call.kv_heads : call.heads;
    const std::int64_t index = states.by_cut ? blockIdx.x : cut.piece;
    return (index * heads + (heads == call.kv_heads ? kv_head : head)) * call.state_size();
  }
  // Does this head have a state of its own, or the group's?
  template <class Pointer>
  __device__ bool owns(const Call& call, const Walk& walk, const States<Pointer>& states) const {
    if (states.data == nullptr) return false;
    return walk.by_kv_head || !states.of_first || head % call.group() == 0;
  }
};

// The positions t, t + step, ... that are staged together.
struct Staged {
  std::int64_t t;
  int count;
  std::int64_t step;
};
struct Columns {
  int first, count;
};

template <class R>
__device__ inline void load_rows(const Call& call, const WalkPlace& at, Source source, const Staged& staged,
                                 const Columns& columns, R (&to)[kStage][kTile]) {
  for (int e = static_cast<int>(threadIdx.x); e < kStage * kTile; e += kWalkThreads) {
    const int i = e / kTile, c = e % kTile;
    const std::int64_t row = at.row_of(source, staged.t + i * staged.step);
    R value = 0;
    if (i < staged.count && c < columns.count && row >= 0)
      value = SourceRow<R>(call, source, at.piece, row, at.head_of(source))[columns.first + c];
    to[i][c] = value;
  }
}

template <class R>
__device__ inline void load_fades(const Call& call, const WalkPlace& at, const Staged& staged, R (&to)[kStage][kTile]) {
  const bool by_channel = call.decay == Decay::channel;
  const int columns = by_channel ? kTile : 1, first = at.x_is_channel ? at.x0 : at.y0;
  for (int e = static_cast<int>(threadIdx.x); e < kStage * columns; e += kWalkThreads) {
    const int i = e / columns, c = e % columns;
    const bool exists = i < staged.count && (!by_channel || first + c < call.d_k);
    to[i][c] = exists ? decay_of<R>(call, at.piece, staged.t + i * staged.step, at.kv_head, first + c) : R{1};
  }
}

// A thread has 16 rows x of one column y: x = 16 i + 4 (thread % 4) + e.
template <class R>
struct WalkColumn {
  R t[16];
  int y, part;

  __device__ WalkColumn() : y(static_cast<int>(threadIdx.x) / 4), part(static_cast<int>(threadIdx.x) % 4 * 4) {}
  __device__ int x(int j) const { return j / 4 * 16 + part + j % 4; }

  __device__ void load(const Call& call, const WalkPlace& at, const R* state) {
#pragma unroll
    for (int j = 0; j < 16; ++j)
      t[j] = state != nullptr && x(j) < at.x_count && y < at.y_count ? state[at.element(call, x(j), y)] : R{0};
  }
  __device__ void store(const Call& call, const WalkPlace& at, R* state) const {
#pragma unroll
    for (int j = 0; j < 16; ++j)
      if (x(j) < at.x_count && y < at.y_count) state[at.element(call, x(j), y)] = t[j];
  }
  template <Fade kFade>
  __device__ void fade(const R (&decay)[kTile], bool by_y) {
    if constexpr (kFade == Fade::none) return;
    const R all = decay[by_y ? y : 0];
#pragma unroll
    for (int j = 0; j < 16; ++j) t[j] *= kFade == Fade::by_x ? decay[x(j)] : all;
  }
  __device__ void add(const R (&xs)[kTile], R own) {
#pragma unroll
    for (int j = 0; j < 16; ++j) t[j] += xs[x(j)] * own;
  }
  // The same bits in the four threads of a column.
  __device__ R read(const R (&rs)[kTile]) const {
    R sum[4] = {0, 0, 0, 0};
#pragma unroll
    for (int j = 0; j < 16; ++j) sum[j % 4] += t[j] * rs[x(j)];
    R all = (sum[0] + sum[1]) + (sum[2] + sum[3]);
    all += __shfl_xor_sync(0xffffffffu, all, 1);
    return all + __shfl_xor_sync(0xffffffffu, all, 2);
  }
};

// Grid: (cuts, heads or kv heads, parts of the state).
template <class R, Step kStep, Fade kFade>
__global__ void __launch_bounds__(kWalkThreads)
    walk_kernel(const __grid_constant__ Call call, const __grid_constant__ Walk walk) {
  __shared__ __align__(16) WalkStage<R> stage;
  const WalkPlace at(call, walk);
  const bool by_y = call.decay == Decay::channel && !at.x_is_channel;
  const bool back = kStep == Step::back || (kStep == Step::sum && walk.back);
  const std::int64_t rows = at.cut.end - at.cut.begin, step = back ? -1 : 1;
  const std::int64_t first = back ? at.cut.end - 1 : at.cut.begin;
  const bool reads_queries = is_of_queries(walk.r);
  const std::int32_t out_heads = reads_queries || !walk.by_kv_head ? call.heads : call.kv_heads;
  const std::int32_t y_width = at.x_is_channel ? call.width : call.d_k;
  const std::int64_t out_rows = reads_queries ? call.query_rows : call.key_rows;
  R* const out = static_cast<R*>(walk.out) + at.x0 / kTile * out_rows * out_heads * y_width;

  WalkColumn<R> column;
  const bool is_idle = column.y / 8 * 8 >= at.y_count;  // alike in a warp
  column.load(call, at,
              at.owns(call, walk, walk.start) ? walk.start.cast<R>() + at.state(call, walk, walk.start) : nullptr);
  for (std::int64_t base = 0; base < rows; base += kStage) {
    const int count = static_cast<int>(min(rows - base, std::int64_t{kStage}));
    const std::int64_t t = first + base * step;
    const Staged staged{t, count, step};
    __syncthreads();
    if constexpr (kStep != Step::read) {
      load_rows<R>(call, at, walk.x, staged, {at.x0, at.x_count}, stage.x);
      load_rows<R>(call, at, walk.y, staged, {at.y0, at.y_count}, stage.y);
      if constexpr (kFade != Fade::none) load_fades<R>(call, at, staged, stage.decay);
    }
    if constexpr (kStep != Step::sum) load_rows<R>(call, at, walk.r, staged, {at.x0, at.x_count}, stage.r);
    __syncthreads();
    if (is_idle) continue;
    for (int i = 0; i < count; ++i) {
      if constexpr (kStep != Step::read) {
        if (!back) column.template fade<kFade>(stage.decay[i], by_y);
        column.add(stage.x[i], stage.y[i][column.y]);
      }
      if constexpr (kStep != Step::sum) {
        const R sum = column.read(stage.r[i]);
        const std::int64_t row = at.row_of(walk.r, t + i * step);
        if (column.part == 0 && column.y < at.y_count && row >= 0)
          out[(((reads_queries ? at.piece.first_q : at.piece.first_k) + row) * out_heads + at.head) * y_width + at.y0 +
              column.y] = sum;
      }
      if constexpr (kStep != Step::read)
        if (back) column.template fade<kFade>(stage.decay[i], by_y);
    }
  }
  const bool is_last = walk.end.by_cut || (back ? at.cut.begin == 0 : at.cut.end == at.piece.nk);
  if (is_last && at.owns(call, walk, walk.end))
    column.store(call, at, walk.end.cast<R>() + at.state(call, walk, walk.end));
}

template <class R, Step kStep>
void launch_walk(const Launch& launch, const Call& call, const Walk& walk) {
  const Source along = kStep == Step::read ? walk.r : walk.x;
  const bool x_is_channel = along == Source::keys || along == Source::queries;
  const auto tiles = [](std::int32_t n) { return static_cast<unsigned>((n + kTile - 1) / kTile); };
  const dim3 grid(static_cast<unsigned>(walk.cuts.count),
                  static_cast<unsigned>(walk.by_kv_head ? call.kv_heads : call.heads),
                  tiles(call.d_k) * tiles(call.width));
  const auto start = [&](auto* kernel) { kernel<<<grid, kWalkThreads, 0, launch.stream>>>(call, walk); };
  if (kStep == Step::read || call.decay == Decay::none)
    start(walk_kernel<R, kStep, Fade::none>);
  else if (call.decay == Decay::channel && x_is_channel)
    start(walk_kernel < R, kStep, kStep == Step::read ? Fade::none : Fade::by_x >);
  else
    start(walk_kernel < R, kStep, kStep == Step::read ? Fade::none : Fade::alike >);
  check_cuda(cudaGetLastError(), "linear attention");
}

template <class R>
void run_walk_as(const Launch& launch, const Call& call, const Walk& walk) {
  switch (walk.step) {
    case Step::sum: return launch_walk<R, Step::sum>(launch, call, walk);
    case Step::scan: return launch_walk<R, Step::scan>(launch, call, walk);
    case Step::back: return launch_walk<R, Step::back>(launch, call, walk);
    case Step::read: return launch_walk<R, Step::read>(launch, call, walk);
  }
}

}  // namespace fovea::scan::cuda
