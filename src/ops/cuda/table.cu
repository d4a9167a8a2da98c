#include "ops/table_kernels.h"

#include "core/wide.h"
#include "gemm/cuda/one_hot.h"
#include "ops/cuda/packs.cuh"
#include "ops/cuda/row_copy.cuh"
#include "tensor/cuda/held_rows.cuh"

namespace fovea {
namespace {

using namespace device;  // NOLINT

template <class Word>
void gather(const Context& context, const kernels::GatherRows& io, std::int64_t words) {
  const Word* const from = static_cast<const Word*>(io.table.raw());
  Word* const to = static_cast<Word*>(io.out.raw());
  const std::int32_t* const index = pointer<std::int32_t>(io.index);
  each(context, io.index.numel() * words, [=] __device__(std::int64_t i) {
    const Split at = split(i, words);
    to[i] = from[index[at.whole] * words + at.rest];
  });
}

template <class R>
void sum(const Context& context, const kernels::GatherSum& io) {
  const std::int64_t width = io.out.dim(-1), count = io.index.numel();
  const Elements<R> table = elements<R>(io.table), other = elements<R>(io.other), out = elements<R>(io.out);
  const std::int32_t *const index = pointer<std::int32_t>(io.index), *const other_index =
                                                                         pointer<std::int32_t>(io.other_index);
  each_pack(context, {count, width}, has_packs(io.table, 1) && has_packs(io.other, 1) && has_packs(io.out, 0),
            [=] __device__(auto neighbours, std::int64_t row, std::int64_t column) {
              R x[decltype(neighbours)::count], y[decltype(neighbours)::count];
              load(table, index[row] * width + column, x);
              load(other, other_index[row] * width + column, y);
              for (int k = 0; k < decltype(neighbours)::count; ++k) x[k] += y[k];
              store(out, row * width + column, x);
            });
}

// The rows of (batch n) that have the places 0, 1, ... of a table.
struct Run {
  std::int64_t first, count;
};

template <class R, DType kType>
struct SumRuns {
  Elements<R> g, table;
  const Run* runs;
  std::int64_t count, width;

  template <class Neighbours>
  __device__ void operator()(Neighbours, std::int64_t place, std::int64_t column) const {
    R sum[Neighbours::count] = {}, there[Neighbours::count];
    if constexpr (Neighbours::count == kPack) {
      constexpr std::int64_t kAhead = 4;
      for (std::int64_t first = 0; first < count; first += kAhead) {
        RawPack<kType> raw[kAhead] = {};
#pragma unroll
        for (std::int64_t k = 0; k < kAhead; ++k)
          if (first + k < count && place < runs[first + k].count)
            raw[k].load(g, (runs[first + k].first + place) * width + column);
#pragma unroll
        for (std::int64_t k = 0; k < kAhead; ++k) {
          R x[kPack];
          raw[k].get(x);
#pragma unroll
          for (int e = 0; e < kPack; ++e) sum[e] += x[e];
        }
      }
    } else {
      for (std::int64_t k = 0; k < count; ++k)
        if (place < runs[k].count) sum[0] += g[(runs[k].first + place) * width + column];
    }
    load(table, place * width + column, there);
#pragma unroll
    for (int e = 0; e < Neighbours::count; ++e) there[e] += sum[e];
    store(table, place * width + column, there);
  }
};

template <class R, DType kType>
void sum_runs(const Context& context, const kernels::AddRuns& io) {
  std::vector<Run> runs;
  std::int64_t longest = 0;
  for (const auto& [batch, begin, count] : *io.runs) {
    runs.push_back({batch * io.n + begin, count});
    longest = std::max(longest, count);
  }
  const auto list = upload(context, runs);
  const std::int64_t width = io.g.dim(1);
  each_pack(context, {longest, width}, has_packs(io.g, 1) && has_packs(io.table, 1),
            SumRuns<R, kType>{elements<R>(io.g), elements<R>(io.table), list.data(), list.size(), width});
}

template <class R>
void add(const Context& context, const kernels::ScatterAdd& io) {
  const Groups groups = groups_of(context, io.index, io.table.dim(0));
  const Elements<R> g = elements<R>(io.g), table = elements<R>(io.table);
  const std::int64_t width = io.g.dim(1);
  add_groups<R>(
      context, groups, width, [=] __device__(std::int64_t p, std::int64_t c) -> R { return g[p * width + c]; },
      [=] __device__(std::int64_t t, std::int64_t c, R sum) { table.put(t * width + c, table[t * width + c] + sum); });
}

}  // namespace

template <>
void kernels::gather_rows<Device::cuda>(const Context& context, const GatherRows& io) {
  if (io.out.numel() == 0) return;
  const auto bytes = static_cast<std::int64_t>(io.out.bytes()) / io.index.numel();
  const auto places = reinterpret_cast<std::uintptr_t>(io.table.raw()) | reinterpret_cast<std::uintptr_t>(io.out.raw());
  visit_words(static_cast<std::int64_t>(places), bytes,
              [&]<class Word>(std::int64_t words) { gather<Word>(context, io, words); });
}

template <>
void kernels::gather_sum<Device::cuda>(const Context& context, const GatherSum& io) {
  visit_wide(io.table.dtype(), [&]<class R>() { sum<R>(context, io); });
}

template <>
void kernels::add_runs<Device::cuda>(const Context& context, const AddRuns& io) {
  visit_stored(io.g.dtype(), [&]<class R, DType kType>() { sum_runs<R, kType>(context, io); });
}

template <>
void kernels::scatter_add<Device::cuda>(const Context& context, const ScatterAdd& io) {
  if (gemm::add_one_hot(context, {io.index.reshape({io.index.numel()}), io.g, io.table})) return;
  visit_wide(io.g.dtype(), [&]<class R>() { add<R>(context, io); });
}

}  // namespace fovea
