#include "ops/table_kernels.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "ops/cpu/column_sum.h"
#include "ops/work.h"

namespace fovea {
namespace {

// The positions of an index, sorted by the row they name. Those of one row are cut into stretches of bounded length, so
// that a frequent token is shared between threads; the cuts depend on the index alone.
struct Stretch {
  std::int64_t row, begin, end;  // places in the sorted order
};
struct Sorted {
  std::vector<std::int64_t> order;  // stable
  std::vector<Stretch> stretches;
  std::vector<std::int64_t> first;  // stretch of each row that occurs; one more at the end
};

Sorted sort_index(const Tensor& index, std::int64_t rows) {
  constexpr std::int64_t kStretch = 256;
  const std::int32_t* row_of = index.data<std::int32_t>();
  const auto at = [](std::int64_t i) { return static_cast<std::size_t>(i); };
  std::vector<std::int64_t> start(at(rows) + 1, 0);
  for (std::int64_t i = 0; i < index.numel(); ++i) ++start[at(row_of[i]) + 1];
  Sorted sorted;
  for (std::int64_t r = 0; r < rows; ++r) {
    const std::int64_t begin = start[at(r)], end = start[at(r) + 1] += begin;
    if (begin < end) sorted.first.push_back(static_cast<std::int64_t>(sorted.stretches.size()));
    for (std::int64_t i = begin; i < end; i += kStretch)
      sorted.stretches.push_back({r, i, std::min(end, i + kStretch)});
  }
  sorted.first.push_back(static_cast<std::int64_t>(sorted.stretches.size()));
  sorted.order.resize(at(index.numel()));
  for (std::int64_t i = 0; i < index.numel(); ++i) sorted.order[at(start[at(row_of[i])]++)] = i;
  return sorted;
}

}  // namespace

template <>
void kernels::gather_rows<Device::cpu>(const Context& context, const GatherRows& io) {
  const std::int64_t width = io.out.numel() / io.index.numel();
  const std::size_t bytes = static_cast<std::size_t>(width) * size_of(io.table.dtype());
  const std::int32_t* rows = io.index.data<std::int32_t>();
  for_rows(context, io.index.numel(), width, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i)
      std::memcpy(static_cast<std::byte*>(io.out.raw()) + static_cast<std::size_t>(i) * bytes,
                  static_cast<const std::byte*>(io.table.raw()) + static_cast<std::size_t>(rows[i]) * bytes, bytes);
  });
}

template <>
void kernels::gather_sum<Device::cpu>(const Context& context, const GatherSum& io) {
  const std::int64_t width = io.out.dim(-1);
  const std::int32_t *rows = io.index.data<std::int32_t>(), *others = io.other_index.data<std::int32_t>();
  visit_float(io.out.dtype(), [&]<class T>() {
    using R = Wide<T>;
    for_rows(context, io.index.numel(), width, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) {
        const R *row = io.table.data<R>() + rows[i] * width, *other = io.other.data<R>() + others[i] * width;
        T* to = io.out.data<T>() + i * width;
        for (std::int64_t c = 0; c < width; ++c) to[c] = T(row[c] + other[c]);
      }
    });
  });
}

template <>
void kernels::add_runs<Device::cpu>(const Context& context, const AddRuns& io) {
  const RowList& runs = *io.runs;
  const std::int64_t width = io.g.dim(1);
  std::int64_t longest = 0;
  for (const Sequences::Rows& run : runs) longest = std::max(longest, run.count);
  visit_wide(io.table.dtype(), [&]<class R>() {
    for_rows(context, longest, width * static_cast<std::int64_t>(runs.size()),
             [&](std::int64_t begin, std::int64_t end) {
               std::vector<std::int64_t> rows;
               std::vector<R> sum;
               for (std::int64_t p = begin; p < end; ++p) {
                 rows.clear();
                 sum.assign(static_cast<std::size_t>(width), R(0));
                 for (const auto& [batch, first, count] : runs)
                   if (p < count) rows.push_back(batch * io.n + first + p);
                 cpu::add_listed(io.g, rows, sum.data());
                 R* to = io.table.data<R>() + p * width;
                 for (std::int64_t c = 0; c < width; ++c) to[c] += sum[static_cast<std::size_t>(c)];
               }
             });
  });
}

// First the sum of every stretch, then of the stretches of a row.
template <>
void kernels::scatter_add<Device::cpu>(const Context& context, const ScatterAdd& io) {
  const Sorted sorted = sort_index(io.index, io.table.dim(0));
  const std::int64_t width = io.g.dim(1), count = static_cast<std::int64_t>(sorted.stretches.size());
  const ColumnSum sums{Tensor::zeros(context, {count, width}, wide_type(io.g.dtype()), Lifetime::scratch), {}};
  const std::int64_t row_bytes = width * static_cast<std::int64_t>(size_of(io.table.dtype()));
  const auto row_of = [row_bytes](const Tensor& t, std::int64_t row) {
    return static_cast<std::byte*>(t.raw()) + row * row_bytes;
  };
  const std::int64_t mean_length = std::max<std::int64_t>(1, io.g.dim(0) / std::max<std::int64_t>(1, count));
  for_rows(context, count, width * mean_length, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t s = begin; s < end; ++s) {
      const Stretch& stretch = sorted.stretches[static_cast<std::size_t>(s)];
      const std::span positions(sorted.order.data() + stretch.begin, sorted.order.data() + stretch.end);
      cpu::add_listed(io.g, positions, row_of(sums.x, s));
    }
  });
  for_rows(context, static_cast<std::int64_t>(sorted.first.size()) - 1, width,
           [&](std::int64_t begin, std::int64_t end) {
             for (std::int64_t r = begin; r < end; ++r) {
               const std::int64_t from = sorted.first[static_cast<std::size_t>(r)],
                                  to = sorted.first[static_cast<std::size_t>(r) + 1];
               cpu::add_columns(sums, from, to, row_of(io.table, sorted.stretches[static_cast<std::size_t>(from)].row));
             }
           });
}

}  // namespace fovea
