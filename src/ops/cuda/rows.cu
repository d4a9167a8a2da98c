#include "ops/rows_kernels.h"

#include "core/wide.h"
#include "ops/cuda/row_copy.cuh"
#include "tensor/cuda/loops.cuh"

namespace fovea {
namespace {

using namespace device;  // NOLINT

// index (b, picks, heads).
struct Picks {
  const std::int32_t* index;
  std::int64_t picks, heads;

  explicit Picks(const Tensor& index) : index(pointer<std::int32_t>(index)), picks(index.dim(1)), heads(index.dim(2)) {}

  struct Pick {
    std::int64_t item, number, head, row;
  };
  __device__ Pick operator[](std::int64_t i) const {
    const Split by_head = split(i, heads), by_item = split(by_head.whole, picks);
    return {by_item.whole, by_item.rest, by_head.rest, index[i]};
  }
};

std::int64_t row_bytes(const Tensor& t) { return t.dim(3) * static_cast<std::int64_t>(size_of(t.dtype())); }

template <class Word>
void take(const Context& context, const kernels::TakeRows& io, std::int64_t words) {
  const Picks picks(io.index);
  const WordRows from(io.from), to(io.to);
  each(context, io.index.numel() * words, [=] __device__(std::int64_t i) {
    const Split at = split(i, words);
    const auto pick = picks[at.whole];
    to.at<Word>(pick.item, pick.number, pick.head, at.rest) =
        pick.row < 0 ? Word{} : from.at<Word>(pick.item, pick.row, pick.head, at.rest);
  });
}

template <class Word>
void put(const Context& context, const kernels::PutRows& io, std::int64_t words) {
  const Picks picks(io.index);
  const WordRows from = io.from.defined() ? WordRows(io.from) : WordRows(), to(io.to);
  each(context, io.index.numel() * words, [=] __device__(std::int64_t i) {
    const Split at = split(i, words);
    const auto pick = picks[at.whole];
    if (pick.row < 0) return;
    to.at<Word>(pick.item, pick.row, pick.head, at.rest) =
        from.data == nullptr ? Word{} : from.at<Word>(pick.item, pick.number, pick.head, at.rest);
  });
}

// i32 (b picks heads): the row of (b, n, heads) that each pick names; -1 for none.
Tensor targets_of(const Context& context, const Tensor& index, std::int64_t n) {
  const Tensor targets = Tensor::empty(context, {index.numel()}, DType::i32, Lifetime::scratch);
  const Picks picks(index);
  std::int32_t* const to = pointer<std::int32_t>(targets);
  each(context, index.numel(), [=] __device__(std::int64_t i) {
    const auto pick = picks[i];
    to[i] = pick.row < 0 ? -1 : static_cast<std::int32_t>((pick.item * n + pick.row) * picks.heads + pick.head);
  });
  return targets;
}

template <class R>
void add(const Context& context, const kernels::AddRows& io) {
  const std::int64_t n = io.to.dim(1), heads = io.to.dim(2), rows = io.to.dim(0) * n * heads;
  if (rows > INT32_MAX) fail(ErrorCode::unsupported, "more than 2^31 rows to add to", "device", "a smaller batch");
  const Groups groups = groups_of(context, targets_of(context, io.index, n), rows);
  const Picks picks(io.index);
  const Elements<R> from = elements<R>(io.from), to = elements<R>(io.to);
  const std::int64_t item = io.from.stride(0), pick = io.from.stride(1), head = io.from.stride(2);
  const std::int64_t to_item = io.to.stride(0), to_row = io.to.stride(1), to_head = io.to.stride(2);
  add_groups<R>(
      context, groups, io.to.dim(3),
      [=] __device__(std::int64_t p, std::int64_t c) -> R {
        const Split by_head = split(p, picks.heads), by_item = split(by_head.whole, picks.picks);
        return from[by_item.whole * item + by_item.rest * pick + by_head.rest * head + c];
      },
      [=] __device__(std::int64_t t, std::int64_t c, R sum) {
        const Split by_head = split(t, heads), by_item = split(by_head.whole, n);
        const std::int64_t at = by_item.whole * to_item + by_item.rest * to_row + by_head.rest * to_head + c;
        to.put(at, to[at] + sum);
      });
}

}  // namespace

template <>
void kernels::take_rows<Device::cuda>(const Context& context, const TakeRows& io) {
  visit_words(WordRows(io.from).alignment() | WordRows(io.to).alignment(), row_bytes(io.to),
              [&]<class Word>(std::int64_t words) { take<Word>(context, io, words); });
}

template <>
void kernels::add_rows<Device::cuda>(const Context& context, const AddRows& io) {
  visit_wide(io.from.dtype(), [&]<class R>() { add<R>(context, io); });
}

template <>
void kernels::put_rows<Device::cuda>(const Context& context, const PutRows& io) {
  const std::int64_t from = io.from.defined() ? WordRows(io.from).alignment() : 0;
  visit_words(from | WordRows(io.to).alignment(), row_bytes(io.to),
              [&]<class Word>(std::int64_t words) { put<Word>(context, io, words); });
}

}  // namespace fovea
