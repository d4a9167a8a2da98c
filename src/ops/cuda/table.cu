#include "ops/table_kernels.h"

#include "core/wide.h"
#include "ops/cuda/row_copy.cuh"
#include "tensor/cuda/loops.cuh"

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
void kernels::scatter_add<Device::cuda>(const Context& context, const ScatterAdd& io) {
  visit_wide(io.g.dtype(), [&]<class R>() { add<R>(context, io); });
}

}  // namespace fovea
