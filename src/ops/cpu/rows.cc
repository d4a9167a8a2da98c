#include "ops/rows_kernels.h"

#include "ops/work.h"

namespace fovea {
namespace {

// Where rows lie: tensors (b, rows, heads, d) with a dense last axis.
struct Picks {
  std::int64_t n, picks, heads, d;
  const std::int32_t* index;  // (b, picks, heads)

  Picks(const Tensor& index, const Tensor& x)
      : n(x.dim(1)), picks(index.dim(1)), heads(index.dim(2)), d(x.dim(3)), index(index.data<std::int32_t>()) {}

  template <class T>
  static T* at(const Tensor& t, std::int64_t item, std::int64_t row, std::int64_t head) {
    return t.data<T>() + item * t.stride(0) + row * t.stride(1) + head * t.stride(2);
  }
  // body(item, pick, head, row) for the picks [begin, end) of (b, picks, heads).
  template <class Body>
  void each(std::int64_t begin, std::int64_t end, Body&& body) const {
    for (std::int64_t i = begin; i < end; ++i)
      body(i / (picks * heads), i / heads % picks, i % heads, std::int64_t{index[i]});
  }
};

}  // namespace

template <>
void kernels::take_rows<Device::cpu>(const Context& context, const TakeRows& io) {
  const Picks picks(io.index, io.from);
  visit_float(io.from.dtype(), [&]<class T>() {
    for_rows(context, io.index.numel(), picks.d, [&](std::int64_t begin, std::int64_t end) {
      picks.each(begin, end, [&](std::int64_t item, std::int64_t pick, std::int64_t head, std::int64_t row) {
        T* to = Picks::at<T>(io.to, item, pick, head);
        if (row < 0)
          std::fill_n(to, picks.d, T(0.0f));
        else
          std::copy_n(Picks::at<T>(io.from, item, row, head), picks.d, to);
      });
    });
  });
}

// One task for each item and head: it owns its rows.
template <>
void kernels::add_rows<Device::cpu>(const Context& context, const AddRows& io) {
  const ZoneTimer timer(context.zones(), Zone::elementwise);
  const Picks picks(io.index, io.to);
  visit_float(io.from.dtype(), [&]<class T>() {
    using R = Wide<T>;
    parallel_for(context, io.to.dim(0) * picks.heads, [&](std::int64_t task) {
      const std::int64_t item = task / picks.heads, head = task % picks.heads;
      for (std::int64_t pick = 0; pick < picks.picks; ++pick) {
        const std::int64_t row = picks.index[(item * picks.picks + pick) * picks.heads + head];
        if (row < 0) continue;
        const T* from = Picks::at<T>(io.from, item, pick, head);
        R* to = Picks::at<R>(io.to, item, row, head);
        for (std::int64_t c = 0; c < picks.d; ++c) to[c] += static_cast<R>(from[c]);
      }
    });
  });
}

template <>
void kernels::put_rows<Device::cpu>(const Context& context, const PutRows& io) {
  const Picks picks(io.index, io.to);
  visit_float(io.to.dtype(), [&]<class T>() {
    for_rows(context, io.index.numel(), picks.d, [&](std::int64_t begin, std::int64_t end) {
      picks.each(begin, end, [&](std::int64_t item, std::int64_t pick, std::int64_t head, std::int64_t row) {
        if (row < 0) return;
        T* to = Picks::at<T>(io.to, item, row, head);
        if (io.from.defined())
          std::copy_n(Picks::at<T>(io.from, item, pick, head), picks.d, to);
        else
          std::fill_n(to, picks.d, T(0.0f));
      });
    });
  });
}

}  // namespace fovea
