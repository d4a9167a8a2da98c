#include "ops/pool_kernels.h"

#include <cstring>
#include <vector>

#include "ops/cpu/column_sum.h"
#include "ops/work.h"

namespace fovea {
namespace {

// from (width) * factor -> to (width).
void scale_row(const Tensor& from, double factor, const Tensor& to) {
  visit_float(to.dtype(), [&]<class T>() {
    using R = Wide<T>;
    visit_float(from.dtype(), [&]<class From>() {
      for (std::int64_t i = 0; i < to.numel(); ++i)
        to.data<T>()[i] = T(static_cast<R>(from.data<From>()[i]) * static_cast<R>(factor));
    });
  });
}

// dx (rows, width): each row that was pooled gets its sequence's row of `shares`, the others 0.
void spread(const Context& context, const Tensor& shares, const std::vector<std::int32_t>& owner, const Tensor& dx) {
  const std::size_t bytes = static_cast<std::size_t>(dx.dim(1)) * size_of(dx.dtype());
  for_rows(context, dx.dim(0), dx.dim(1), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      std::byte* to = static_cast<std::byte*>(dx.raw()) + static_cast<std::size_t>(row) * bytes;
      const std::int32_t s = owner[static_cast<std::size_t>(row)];
      if (s < 0)
        std::memset(to, 0, bytes);
      else
        std::memcpy(to, static_cast<const std::byte*>(shares.raw()) + static_cast<std::size_t>(s) * bytes, bytes);
    }
  });
}

// The same added to a gradient that is there already.
void add_spread(const Context& context, const Tensor& shares, const std::vector<std::int32_t>& owner,
                const Tensor& dx) {
  const std::int64_t width = dx.dim(1);
  visit_float(dx.dtype(), [&]<class T>() {
    using R = Wide<T>;
    for_rows(context, dx.dim(0), width, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t row = begin; row < end; ++row) {
        const std::int32_t s = owner[static_cast<std::size_t>(row)];
        if (s < 0) continue;
        const T* share = shares.data<T>() + s * width;
        T* to = dx.data<T>() + row * width;
        for (std::int64_t c = 0; c < width; ++c) to[c] = T(static_cast<R>(to[c]) + static_cast<R>(share[c]));
      }
    });
  });
}

}  // namespace

template <>
void kernels::mean_rows<Device::cpu>(const Context& context, const MeanRows& io) {
  const RowList& ranges = *io.ranges;
  const Stretches stretches(ranges, io.n);
  const Tensor sums = cpu::stretch_sums(context, io.x, stretches);
  for (std::size_t s = 0; s < ranges.size(); ++s) {
    const Tensor to = io.out.select(0, static_cast<std::int64_t>(s));
    if (ranges[s].count == 0) {
      to.fill(0.0);
      continue;
    }
    const Tensor sum = cpu::fold_blocks(context, sums.slice(0, stretches.first[s], stretches.first[s + 1]));
    scale_row(sum, 1.0 / static_cast<double>(ranges[s].count), to);
  }
}

template <>
void kernels::mean_rows_backward<Device::cpu>(const Context& context, const MeanRowsVjp& io) {
  const RowList& ranges = *io.ranges;
  const Tensor shares = Tensor::empty(context, io.g.shape(), io.g.dtype());
  std::vector<std::int32_t> owner(static_cast<std::size_t>(io.dx.dim(0)), -1);
  for (std::size_t s = 0; s < ranges.size(); ++s) {
    const auto& [batch, begin, count] = ranges[s];
    std::fill_n(owner.begin() + batch * io.n + begin, count, static_cast<std::int32_t>(s));
    const auto row = static_cast<std::int64_t>(s);
    if (count > 0) scale_row(io.g.select(0, row), 1.0 / static_cast<double>(count), shares.select(0, row));
  }
  if (io.add)
    add_spread(context, shares, owner, io.dx);
  else
    spread(context, shares, owner, io.dx);
}

}  // namespace fovea
