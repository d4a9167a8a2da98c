#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/cpu/diagonals.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep

#include <vector>

#include "hwy/highway.h"
#include "ops/cpu/diagonals.h"
#include "ops/cpu/head_rows.h"
#include "ops/cpu/row_reduce-inl.h"
#include "ops/work.h"

HWY_BEFORE_NAMESPACE();
namespace fovea {
namespace HWY_NAMESPACE {
namespace {

// Where things lie in the tensors of a product.
template <class T>
struct DiagonalWalk {
  explicit DiagonalWalk(const kernels::DiagonalTensors& io)
      : io(io),
        n(io.x.dim(1)),
        heads(io.x.dim(2)),
        group(heads / io.y.dim(2)),
        count(static_cast<std::int64_t>(io.offsets.size())),
        x(io.x),
        y(io.y),
        all_weights(io.weights.data<T>()) {}

  // For every offset the row of the item that lies there, forth (sign 1) or back (-1); -1 where there is none.
  void meet(std::int64_t item, std::int64_t row, std::int64_t sign, std::vector<std::int64_t>& rows) const {
    const Span span = io.spans[static_cast<std::size_t>(item * n + row)];
    const std::int64_t length = span.end - span.begin;
    rows.clear();
    for (const std::int64_t offset : io.offsets) {
      std::int64_t to = row + sign * offset;
      if (io.ring && length > 0) {
        const std::int64_t wrapped = (to - span.begin) % length;
        to = span.begin + (wrapped < 0 ? wrapped + length : wrapped);
      }
      rows.push_back(span.holds(to) ? to : -1);
    }
  }
  // (offsets) of one row and head.
  T* weights(std::int64_t item, std::int64_t row, std::int64_t head) const {
    return all_weights + ((item * n + row) * heads + head) * count;
  }

  const kernels::DiagonalTensors& io;
  std::int64_t n, heads, group, count;
  HeadRows<T> x, y;
  T* all_weights;
};

// The rows that those of a block meet, offset by offset: one offset's are neighbours in memory, and so read at full
// speed where all offsets of one row, powers of two apart, fall on the same lines of a cache.
template <class T>
class MetRows {
 public:
  MetRows(const DiagonalWalk<T>& walk, const cpu::DiagonalRows& rows, std::int64_t sign) : count_(walk.count) {
    std::vector<std::int64_t> met;
    for (std::int64_t i = rows.begin; i < rows.end; ++i) {
      walk.meet(rows.item, i, sign, met);
      all_.insert(all_.end(), met.begin(), met.end());
    }
  }

  // body(offset, row of the block, the row it meets or -1)
  template <class Body>
  void for_each(Body&& body) const {
    const std::int64_t rows = count_ == 0 ? 0 : std::ssize(all_) / count_;
    for (std::int64_t c = 0; c < count_; ++c)
      for (std::int64_t r = 0; r < rows; ++r) body(c, r, all_[static_cast<std::size_t>(r * count_ + c)]);
  }

 private:
  std::int64_t count_;
  std::vector<std::int64_t> all_;
};

template <class T, class R>
void add_weighed(R weight, const T* HWY_RESTRICT row, R* HWY_RESTRICT sum, std::int64_t d) {
  const hn::ScalableTag<R> tag;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(tag));
  const auto factor = hn::Set(tag, weight);
  std::int64_t c = 0;
  for (; c + lanes <= d; c += lanes)
    hn::StoreU(hn::MulAdd(factor, load_wide(tag, row + c), hn::LoadU(tag, sum + c)), tag, sum + c);
  for (; c < d; ++c) sum[c] += weight * static_cast<R>(row[c]);
}

template <class T, class R>
void put_scaled(const R* HWY_RESTRICT sum, R scale, T* HWY_RESTRICT to, std::int64_t d) {
  for (std::int64_t c = 0; c < d; ++c) to[c] = T(scale * sum[c]);
}

template <class T>
void dots_typed(const kernels::DiagonalTensors& io, const cpu::DiagonalRows& rows, double outside) {
  using R = Wide<T>;
  const DiagonalWalk<T> walk(io);
  const std::int64_t d = io.x.dim(3);
  MetRows<T>(walk, rows, 1).for_each([&](std::int64_t c, std::int64_t r, std::int64_t met) {
    for (std::int64_t h = 0; h < walk.heads; ++h) {
      R score = static_cast<R>(outside);
      if (met >= 0)
        score = static_cast<R>(io.scale) *
                row_dot(walk.x.at(rows.item, rows.begin + r, h), walk.y.at(rows.item, met, h / walk.group), d);
      walk.weights(rows.item, rows.begin + r, h)[c] = T(score);
    }
  });
}

// Sums of a block's rows, all heads of them, in the wide type.
template <class T>
class BlockSums {
 public:
  BlockSums(const Tensor& to, const cpu::DiagonalRows& rows)
      : heads_(to.dim(2)), d_(to.dim(3)), sums_(static_cast<std::size_t>((rows.end - rows.begin) * heads_ * d_)) {}

  Wide<T>* at(std::int64_t r, std::int64_t head) { return sums_.data() + (r * heads_ + head) * d_; }

  void write(const HeadRows<T>& to, Wide<T> scale, const cpu::DiagonalRows& rows) {
    for (std::int64_t r = 0; r < rows.end - rows.begin; ++r)
      for (std::int64_t h = 0; h < heads_; ++h) put_scaled(at(r, h), scale, to.at(rows.item, rows.begin + r, h), d_);
  }

 private:
  std::int64_t heads_, d_;
  std::vector<Wide<T>> sums_;
};

template <class T>
void mix_typed(const kernels::DiagonalTensors& io, const cpu::DiagonalRows& rows) {
  const DiagonalWalk<T> walk(io);
  BlockSums<T> sums(io.x, rows);
  MetRows<T>(walk, rows, 1).for_each([&](std::int64_t c, std::int64_t r, std::int64_t met) {
    for (std::int64_t h = 0; met >= 0 && h < walk.heads; ++h)
      add_weighed(static_cast<Wide<T>>(walk.weights(rows.item, rows.begin + r, h)[c]),
                  walk.y.at(rows.item, met, h / walk.group), sums.at(r, h), io.x.dim(3));
  });
  sums.write(walk.x, static_cast<Wide<T>>(io.scale), rows);
}

template <class T>
void mix_back_typed(const kernels::DiagonalTensors& io, const cpu::DiagonalRows& rows) {
  const DiagonalWalk<T> walk(io);
  BlockSums<T> sums(io.y, rows);
  MetRows<T>(walk, rows, -1).for_each([&](std::int64_t c, std::int64_t r, std::int64_t met) {
    for (std::int64_t h = 0; met >= 0 && h < walk.heads; ++h)
      add_weighed(static_cast<Wide<T>>(walk.weights(rows.item, met, h)[c]), walk.x.at(rows.item, met, h),
                  sums.at(r, h / walk.group), io.x.dim(3));
  });
  sums.write(walk.y, static_cast<Wide<T>>(io.scale), rows);
}

void dots(const kernels::DiagonalTensors& io, const cpu::DiagonalRows& rows, double outside) {
  visit_float(io.x.dtype(), [&]<class T>() { dots_typed<T>(io, rows, outside); });
}
void mix(const kernels::DiagonalTensors& io, const cpu::DiagonalRows& rows) {
  visit_float(io.x.dtype(), [&]<class T>() { mix_typed<T>(io, rows); });
}
void mix_back(const kernels::DiagonalTensors& io, const cpu::DiagonalRows& rows) {
  visit_float(io.x.dtype(), [&]<class T>() { mix_back_typed<T>(io, rows); });
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace fovea
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace fovea {
namespace {

HWY_EXPORT(dots);
HWY_EXPORT(mix);
HWY_EXPORT(mix_back);

// body(rows) on blocks of rows, all heads of them: a row is dense in memory, its heads alone are not. Head by
// head the scores take twice as long (n 16384, 4 heads of 64).
template <class Body>
void for_diagonals(const Context& context, const kernels::DiagonalTensors& io, Body&& body) {
  constexpr std::int64_t kRows = 16;
  const ZoneTimer timer(context.zones(), Zone::elementwise);
  const std::int64_t n = io.x.dim(1), blocks = (n + kRows - 1) / kRows;
  parallel_for(context, io.x.dim(0) * blocks, [&](std::int64_t task) {
    const std::int64_t begin = task % blocks * kRows;
    body({task / blocks, begin, std::min(n, begin + kRows)});
  });
}

}  // namespace

template <>
void kernels::diagonal_dots<Device::cpu>(const Context& context, const DiagonalTensors& io, double outside) {
  const auto run = HWY_DYNAMIC_DISPATCH(dots);
  for_diagonals(context, io, [&](const cpu::DiagonalRows& rows) { run(io, rows, outside); });
}

template <>
void kernels::diagonal_mix<Device::cpu>(const Context& context, const DiagonalTensors& io) {
  const auto run = HWY_DYNAMIC_DISPATCH(mix);
  for_diagonals(context, io, [&](const cpu::DiagonalRows& rows) { run(io, rows); });
}

template <>
void kernels::diagonal_mix_back<Device::cpu>(const Context& context, const DiagonalTensors& io) {
  const auto run = HWY_DYNAMIC_DISPATCH(mix_back);
  for_diagonals(context, io, [&](const cpu::DiagonalRows& rows) { run(io, rows); });
}

}  // namespace fovea
#endif  // HWY_ONCE
