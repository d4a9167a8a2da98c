#pragma once

#include <cmath>
#include <cstdint>

#include "inspect/windows.h"
#include "policy/pointwise_weight.h"
#include "policy/softmax.h"
#include "scan/contract.h"
#include "tile/contract.h"

// Some rows of a map in the memory of a card, and what is told from them. A block owns what it adds to, or a thread
// does, and takes rows in order: the same bits on every run.
namespace fovea::inspection::cuda {

inline constexpr int kThreads = 256, kWarps = kThreads / 32;

// Keys [begin, begin + count) of a piece stand in the columns from `column` on.
struct KeyColumns {
  std::int32_t begin, count, column;
};

// Rows [first, first + count) of a piece, of some heads.
struct MapRowsAt {
  float* weights;  // [heads, room, stride]
  std::int64_t room, stride;
  std::int32_t heads, first_head;
  std::int64_t first, count, nk;
  std::int32_t block;          // rows that read the same keys
  const std::int32_t* starts;  // of block b from that of `first` on: runs [starts[b], starts[b + 1])
  const KeyColumns* runs;
  std::int64_t q0, q_step, k0, k_step;

  __device__ float* row(std::int64_t head, std::int64_t r) const { return weights + (head * room + r) * stride; }
  __device__ std::int64_t place(std::int64_t r) const { return q0 + (first + r) * q_step; }  // in the sequence
  __device__ std::int64_t key_place(std::int64_t key) const { return k0 + key * k_step; }

  struct Keys {
    const KeyColumns *begin, *end;
  };
  __device__ Keys keys(std::int64_t r) const {
    const std::int64_t b = r / block;
    return {runs + starts[b], runs + starts[b + 1]};
  }
  __device__ std::int32_t columns(std::int64_t r) const {
    const Keys all = keys(r);
    return all.begin == all.end ? 0 : all.end[-1].column + all.end[-1].count;
  }
  // Of a key of the piece; -1: the row does not read it.
  __device__ std::int32_t column_of(std::int64_t r, std::int64_t key) const {
    const Keys all = keys(r);
    const KeyColumns* low = all.begin;
    for (const KeyColumns* high = all.end; high - low > 1;) {
      const KeyColumns* middle = low + (high - low) / 2;
      (middle->begin <= key ? low : high) = middle;
    }
    const bool inside = low != all.end && low->begin <= key && key < low->begin + low->count;
    return inside ? low->column + static_cast<std::int32_t>(key - low->begin) : -1;
  }
  __device__ std::int64_t key_of(std::int64_t r, std::int32_t column) const {
    const Keys all = keys(r);
    const KeyColumns* low = all.begin;
    for (const KeyColumns* high = all.end; high - low > 1;) {
      const KeyColumns* middle = low + (high - low) / 2;
      (middle->column <= column ? low : high) = middle;
    }
    return low->begin + (column - low->column);
  }
  // f(weight) for the keys of row r at places [begin, end), in order.
  template <class F>
  __device__ void each(std::int64_t head, std::int64_t r, std::int64_t begin, std::int64_t end, F&& f) const {
    const float* w = row(head, r);
    const auto local = [&](std::int64_t at) { return at <= k0 ? std::int64_t{0} : (at - k0 + k_step - 1) / k_step; };
    const std::int64_t from = local(begin), to = local(end);
    const Keys all = keys(r);
    for (const KeyColumns* run = all.begin; run != all.end; ++run) {
      const std::int64_t a = from > run->begin ? from : run->begin, last = std::int64_t{run->begin} + run->count;
      for (std::int64_t j = a; j < (to < last ? to : last); ++j) f(w[run->column + (j - run->begin)]);
    }
  }
};

struct MapSizes {
  std::int64_t n_q, n_k;
  bool causal;
  std::int32_t top;
};

// How scores become weights; see RowRecipe.
struct RecipeView {
  tile::Weight weight;
  SigmoidWeight sigmoid;
  PolynomialWeight polynomial;
  bool quotient, features;
  const float* powers;
  std::int64_t heads, kv_heads;
  scan::Denominator denominator;
  double eps, factor;
  bool shares;  // rows are divided by the sum of their magnitudes

  __device__ float point(float score) const {
    switch (weight) {
      case tile::Weight::rela: return Rela::weigh(score);
      case tile::Weight::relu2: return Relu2::weigh(score);
      case tile::Weight::sigmoid: return sigmoid.weigh(score);
      case tile::Weight::exp: return ExponentialWeight::weigh(score * ExponentialWeight::kUnit<float>);
      default: return polynomial.weigh(score);
    }
  }
};

// Where what is found of rows goes: [heads, n_q], keys and weights also by `top`.
struct RowFactsAt {
  float *entropy, *row_sum, *max_logit;
  std::int32_t* top_keys;
  float* top_weights;
};

// A weight of a row, by magnitude; of equals the earlier comes first.
struct Ranked {
  float magnitude;
  std::int32_t column;
  __device__ bool before(const Ranked& other) const {
    return magnitude > other.magnitude || (magnitude == other.magnitude && column < other.column);
  }
};

template <class T>
__device__ T of_other_lane(T mine, int step) {
  return __shfl_xor_sync(0xffffffffu, mine, step);
}
__device__ inline Ranked of_other_lane(Ranked mine, int step) {
  return {of_other_lane(mine.magnitude, step), of_other_lane(mine.column, step)};
}

// What all threads of a block have, joined; every thread gets it.
template <class T, class Join>
__device__ T join_block(T mine, Join&& join) {
  __shared__ T parts[kWarps];
  for (int step = 16; step > 0; step /= 2) mine = join(mine, of_other_lane(mine, step));
  __syncthreads();
  if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = mine;
  __syncthreads();
  T all = parts[0];
  for (int w = 1; w < kWarps; ++w) all = join(all, parts[w]);
  return all;
}
__device__ inline double sum_block(double mine) {
  return join_block(mine, [](double a, double b) { return a + b; });
}

// A row of scores that becomes shares. One block.
class RowWork {
 public:
  __device__ RowWork(const MapRowsAt& rows, const RecipeView& recipe, const MapSizes& sizes, const RowFactsAt& to)
      : rows_(rows),
        recipe_(recipe),
        sizes_(sizes),
        to_(to),
        r_(blockIdx.x),
        head_(rows.first_head + static_cast<std::int64_t>(blockIdx.y)),
        w_(rows.row(blockIdx.y, blockIdx.x)),
        n_(rows.columns(blockIdx.x)) {}

  __device__ void run() {
    double row_sum = 0.0, entropy = -1.0;  // below 0: not known
    float top = -math::kInfinity<float>;
    if (recipe_.features) {
      weigh_features(row_sum);
    } else {
      top = largest_score();
      weigh_scores(top, row_sum, entropy);
    }
    const bool has_mass = isfinite(row_sum) && row_sum > 0.0;
    const double logarithms = scale(has_mass ? (recipe_.shares ? factor_ / row_sum : factor_) : 0.0);
    if (entropy < 0.0) entropy = logarithms > 0.0 ? 0.0 : -logarithms;
    const std::int64_t at = head_ * sizes_.n_q + rows_.place(r_);
    if (threadIdx.x == 0) {
      to_.entropy[at] = has_mass ? static_cast<float>(entropy) : isfinite(row_sum) ? 0.0f : NAN;
      to_.row_sum[at] = static_cast<float>(row_sum);
      to_.max_logit[at] = top;
    }
    if (recipe_.shares) keep_top(at);
  }

 private:
  template <class F>
  __device__ void each(F&& f) const {
    for (std::int32_t c = static_cast<std::int32_t>(threadIdx.x); c < n_; c += kThreads) f(c);
  }
  __device__ float largest_score() const {
    float top = -math::kInfinity<float>;
    each([&](std::int32_t c) { top = math::larger(w_[c], top); });
    return join_block(top, [](float a, float b) { return math::larger(a, b); });
  }

  __device__ void weigh_scores(float top, double& row_sum, double& entropy) {
    const bool shares = tile::has_statistic(recipe_.weight), adjusts = recipe_.weight == tile::Weight::self_adjust;
    const bool empty = shares && top == -math::kInfinity<float>;  // or nothing but NaN
    double exponentials = 0.0, weighted = 0.0, magnitudes = 0.0, plain = 0.0;
    each([&](std::int32_t c) {
      const float s = w_[c], below = s - top, bounded = below < -200.0f ? -200.0f : below;
      float w = 0.0f;
      if (empty) {
        w = isnan(s) ? s : 0.0f;
      } else if (shares) {
        const float share = math::exp2_low(bounded * math::kLog2e<float>);
        exponentials += static_cast<double>(share);
        weighted += static_cast<double>(share) * static_cast<double>(bounded);
        w = !adjusts ? share : s == -math::kInfinity<float> ? 0.0f : s * share;
      } else {
        w = recipe_.point(s);
      }
      w_[c] = w;
      magnitudes += static_cast<double>(math::absolute(w));
      plain += static_cast<double>(w);
    });
    exponentials = sum_block(exponentials);
    weighted = sum_block(weighted);
    magnitudes = sum_block(magnitudes);
    plain = sum_block(plain);
    if (shares && !empty) factor_ = 1.0 / exponentials;
    if (recipe_.weight == tile::Weight::softmax && !empty)
      entropy = log(exponentials) - weighted / exponentials;  // NaN where a score is
    if (recipe_.quotient) factor_ = plain == 0.0 ? 0.0 : 1.0 / plain;
    row_sum = magnitudes * (factor_ < 0.0 ? -factor_ : factor_);
  }

  __device__ void weigh_features(double& row_sum) {
    const std::int64_t position = rows_.place(r_) + sizes_.n_k - sizes_.n_q;
    const float* powers =
        recipe_.powers == nullptr ? nullptr : recipe_.powers + head_ * recipe_.kv_heads / recipe_.heads * sizes_.n_k;
    double magnitudes = 0.0, plain = 0.0;
    each([&](std::int32_t c) {
      float w = w_[c] == -math::kInfinity<float> ? 0.0f : w_[c];
      if (powers != nullptr) {
        const std::int64_t age = position - rows_.key_place(rows_.key_of(r_, c));
        if (age >= 0) w *= powers[sizes_.n_k - 1 - age];  // later ones are 0
      }
      w_[c] = w;
      magnitudes += static_cast<double>(math::absolute(w));
      plain += static_cast<double>(w);
    });
    magnitudes = sum_block(magnitudes);
    plain = sum_block(plain);
    factor_ = recipe_.factor;
    if (recipe_.denominator == scan::Denominator::add) factor_ /= plain + recipe_.eps;
    if (recipe_.denominator == scan::Denominator::clamp) factor_ /= plain < recipe_.eps ? recipe_.eps : plain;
    row_sum = magnitudes * (factor_ < 0.0 ? -factor_ : factor_);
  }

  // Multiplies the row; 0 clears it. Returns the sum of m ln m, m the magnitudes.
  __device__ double scale(double by) const {
    const auto factor = static_cast<float>(by);
    double sum = 0.0;
    each([&](std::int32_t c) {
      const float w = by == 0.0 ? 0.0f : w_[c] * factor, m = math::absolute(w);
      w_[c] = w;
      sum += static_cast<double>(m * math::log(m < 1e-37f ? 1e-37f : m));
    });
    return sum_block(sum);
  }

  // One after the other, each the best of those behind the one before.
  __device__ void keep_top(std::int64_t at) const {
    constexpr std::int32_t kNone = 0x7fffffff;  // no column
    Ranked last{math::kInfinity<float>, -1};
    for (std::int32_t t = 0; t < sizes_.top; ++t) {
      Ranked mine{0.0f, kNone};
      if (last.column != kNone)
        each([&](std::int32_t c) {
          const Ranked here{math::absolute(w_[c]), c};
          if (here.before(mine) && last.before(here)) mine = here;
        });
      last = join_block(mine, [](const Ranked& a, const Ranked& b) { return a.before(b) ? a : b; });
      if (last.magnitude == 0.0f) last.column = kNone;
      if (threadIdx.x != 0) continue;
      const bool found = last.column != kNone;
      to_.top_keys[at * sizes_.top + t] =
          found ? static_cast<std::int32_t>(rows_.key_place(rows_.key_of(r_, last.column))) : -1;
      to_.top_weights[at * sizes_.top + t] = found ? w_[last.column] : 0.0f;
    }
  }

  const MapRowsAt& rows_;
  const RecipeView& recipe_;
  const MapSizes& sizes_;
  const RowFactsAt& to_;
  std::int64_t r_, head_;
  float* w_;
  std::int32_t n_;
  double factor_ = 1.0;  // on the weights
};

// Scores of rows become shares, and facts of them are told.
__global__ void __launch_bounds__(kThreads)
    weigh_rows_kernel(const __grid_constant__ MapRowsAt rows, const __grid_constant__ RecipeView recipe, MapSizes sizes,
                      RowFactsAt to) {
  RowWork(rows, recipe, sizes, to).run();
}

// The number of this thread among those of a head.
__device__ inline std::int64_t thread_of_head() { return std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x; }

// What each key receives: to[heads, n_k].
__global__ void received_kernel(const __grid_constant__ MapRowsAt rows, MapSizes sizes, double* to) {
  const std::int64_t key = thread_of_head(), head = blockIdx.y;
  if (key >= rows.nk) return;
  double sum = 0.0;
  for (std::int64_t begin = 0; begin < rows.count; begin += rows.block) {
    const std::int32_t column = rows.column_of(begin, key);
    if (column < 0) continue;
    for (std::int64_t r = begin; r < min(rows.count, begin + rows.block); ++r)
      sum += static_cast<double>(math::absolute(rows.row(head, r)[column]));
  }
  to[(rows.first_head + head) * sizes.n_k + rows.key_place(key)] += sum;
}

// Mass by key - row + n_q - 1: to[heads, n_q + n_k - 1].
__global__ void distance_kernel(const __grid_constant__ MapRowsAt rows, MapSizes sizes, double* to) {
  const std::int64_t which = thread_of_head(), head = blockIdx.y, distance = which - (sizes.n_q - 1);
  if (which >= sizes.n_q + sizes.n_k - 1) return;
  const std::int64_t last = rows.key_place(rows.nk - 1);
  if (rows.place(rows.count - 1) + distance < rows.k0 || rows.place(0) + distance > last) return;
  double sum = 0.0;
  for (std::int64_t r = 0; r < rows.count; ++r) {
    const std::int64_t place = rows.place(r) + distance;
    if (place < rows.k0 || place > last || (place - rows.k0) % rows.k_step != 0) continue;
    const std::int32_t column = rows.column_of(r, (place - rows.k0) / rows.k_step);
    if (column >= 0) sum += static_cast<double>(math::absolute(rows.row(head, r)[column]));
  }
  to[(rows.first_head + head) * (sizes.n_q + sizes.n_k - 1) + which] += sum;
}

// Windows around the places of rows, and the blocks that they lie in.
struct WindowsView {
  const std::int64_t* sizes;
  std::int32_t count;
  std::int64_t block;
};

// What a window has and the one before had not; last what the row's block has. parts: [heads, rows, windows + 1].
__global__ void windows_kernel(const __grid_constant__ MapRowsAt rows, MapSizes sizes, WindowsView windows,
                               double* parts) {
  const std::int64_t r = blockIdx.x, head = blockIdx.y;
  const std::int64_t place = place_among_keys(rows.place(r), sizes.n_q, sizes.n_k, sizes.causal);
  for (int p = static_cast<int>(threadIdx.x); p <= windows.count; p += static_cast<int>(blockDim.x)) {
    double sum = 0.0;
    const auto add = [&](float w) { sum += static_cast<double>(math::absolute(w)); };
    if (p == windows.count) {
      const std::int64_t first = place / windows.block * windows.block;
      rows.each(head, r, first, first + windows.block, add);
    } else {
      const KeyWindow now = window_of(place, windows.sizes[p], sizes.n_k);
      const KeyWindow had = p == 0 ? KeyWindow{place, place} : window_of(place, windows.sizes[p - 1], sizes.n_k);
      rows.each(head, r, now.begin, had.begin, add);
      rows.each(head, r, had.end, now.end, add);
    }
    parts[(head * rows.count + r) * (windows.count + 1) + p] = sum;
  }
}
__global__ void add_windows_kernel(const __grid_constant__ MapRowsAt rows, std::int32_t count, const double* parts,
                                   double* to) {
  const std::int64_t p = thread_of_head(), head = blockIdx.y;
  if (p >= count) return;
  double sum = 0.0;
  for (std::int64_t r = 0; r < rows.count; ++r) sum += parts[(head * rows.count + r) * count + p];
  to[(rows.first_head + head) * count + p] += sum;
}

// The finest level of the pyramid: [heads, rows, columns].
struct CellsAt {
  std::int64_t rows, columns, cell_rows, cell_keys;
  double* sums;
  float* largest;
};
__global__ void cells_kernel(const __grid_constant__ MapRowsAt rows, CellsAt to) {
  const std::int64_t column = thread_of_head(), head = blockIdx.y;
  if (column >= to.columns) return;
  for (std::int64_t r = 0; r < rows.count; ++r) {
    double sum = 0.0;
    float largest = 0.0f;
    rows.each(head, r, column * to.cell_keys, (column + 1) * to.cell_keys, [&](float w) {
      sum += static_cast<double>(w);
      largest = math::larger(math::absolute(w), largest);
    });
    const std::int64_t at = ((rows.first_head + head) * to.rows + rows.place(r) / to.cell_rows) * to.columns + column;
    to.sums[at] += sum;
    to.largest[at] = math::larger(largest, to.largest[at]);
  }
}

// A part of the rows as they are: weights of rows [row_begin, ...) at places [key_begin, ...), (rows, keys).
struct RectangleAt {
  std::int64_t row_begin, row_end, key_begin, key_end;
  float* to;
};
__global__ void rectangle_kernel(const __grid_constant__ MapRowsAt rows, RectangleAt at) {
  const std::int64_t row = rows.place(blockIdx.x);
  if (row < at.row_begin || row >= at.row_end) return;
  const std::int32_t columns = rows.columns(blockIdx.x);
  float* to = at.to + (row - at.row_begin) * (at.key_end - at.key_begin);
  for (auto c = static_cast<std::int32_t>(threadIdx.x); c < columns; c += static_cast<std::int32_t>(blockDim.x)) {
    const std::int64_t key = rows.key_place(rows.key_of(blockIdx.x, c));
    if (at.key_begin <= key && key < at.key_end) to[key - at.key_begin] = rows.row(0, blockIdx.x)[c];
  }
}

}  // namespace fovea::inspection::cuda
