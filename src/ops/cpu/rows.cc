#include "ops/rows_kernels.h"

#include "ops/cpu/head_rows.h"
#include "ops/work.h"

namespace fovea {
namespace {

// body(item, pick, head, row) for the picks [begin, end) of a dense index (b, picks, heads).
template <class Body>
void each_pick(const Tensor& index, std::int64_t begin, std::int64_t end, Body&& body) {
  const std::int32_t* rows = index.data<std::int32_t>();
  const std::int64_t picks = index.dim(1), heads = index.dim(2);
  std::int64_t item = begin / (picks * heads), pick = begin / heads % picks, head = begin % heads;
  for (std::int64_t i = begin; i < end; ++i) {
    body(item, pick, head, std::int64_t{rows[i]});
    if (++head < heads) continue;
    head = 0;
    if (++pick < picks) continue;
    pick = 0;
    ++item;
  }
}

}  // namespace

template <>
void kernels::take_rows<Device::cpu>(const Context& context, const TakeRows& io) {
  const std::int64_t d = io.from.dim(3);
  visit_float(io.from.dtype(), [&]<class T>() {
    const HeadRows<T> from(io.from), to(io.to);
    for_rows(context, io.index.numel(), d, [&](std::int64_t begin, std::int64_t end) {
      each_pick(io.index, begin, end, [&](std::int64_t item, std::int64_t pick, std::int64_t head, std::int64_t row) {
        if (row < 0)
          std::fill_n(to.at(item, pick, head), d, T(0.0f));
        else
          std::copy_n(from.at(item, row, head), d, to.at(item, pick, head));
      });
    });
  });
}

// One task for each item and head: it owns its rows.
template <>
void kernels::add_rows<Device::cpu>(const Context& context, const AddRows& io) {
  const ZoneTimer timer(context.zones(), Zone::elementwise);
  const std::int64_t picks = io.index.dim(1), heads = io.index.dim(2), d = io.to.dim(3);
  visit_float(io.from.dtype(), [&]<class T>() {
    using R = Wide<T>;
    const HeadRows<T> from(io.from);
    const HeadRows<R> to(io.to);
    parallel_for(context, io.to.dim(0) * heads, [&](std::int64_t task) {
      const std::int64_t item = task / heads, head = task % heads;
      const std::int32_t* rows = io.index.data<std::int32_t>() + item * picks * heads + head;
      for (std::int64_t pick = 0; pick < picks; ++pick) {
        if (rows[pick * heads] < 0) continue;
        const T* more = from.at(item, pick, head);
        R* sum = to.at(item, rows[pick * heads], head);
        for (std::int64_t c = 0; c < d; ++c) sum[c] += static_cast<R>(more[c]);
      }
    });
  });
}

template <>
void kernels::put_rows<Device::cpu>(const Context& context, const PutRows& io) {
  const std::int64_t d = io.to.dim(3);
  visit_float(io.to.dtype(), [&]<class T>() {
    const HeadRows<T> to(io.to), from(io.from.defined() ? io.from : io.to);
    for_rows(context, io.index.numel(), d, [&](std::int64_t begin, std::int64_t end) {
      each_pick(io.index, begin, end, [&](std::int64_t item, std::int64_t pick, std::int64_t head, std::int64_t row) {
        if (row < 0) return;
        if (io.from.defined())
          std::copy_n(from.at(item, pick, head), d, to.at(item, row, head));
        else
          std::fill_n(to.at(item, row, head), d, T(0.0f));
      });
    });
  });
}

}  // namespace fovea
