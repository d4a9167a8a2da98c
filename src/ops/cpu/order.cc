#include "ops/order_kernels.h"

#include <algorithm>
#include <vector>

#include "ops/sequence.h"
#include "ops/work.h"

namespace fovea {
namespace {

// A value and its row within the item. NaN is below everything.
template <class T>
struct Entry {
  T value;
  std::int32_t row;
};
template <class T>
bool above(const Entry<T>& a, const Entry<T>& b) {
  const bool a_nan = a.value != a.value, b_nan = b.value != b.value;
  if (a_nan || b_nan) return a_nan == b_nan ? a.row < b.row : b_nan;
  return a.value != b.value ? a.value > b.value : a.row < b.row;
}

// The entries of one sequence and head of a dense (b, n, heads); T -> R.
template <class R, class T>
void read_entries(const T* values, std::int64_t heads, const Sequences::Rows& rows, std::vector<Entry<R>>& entries) {
  entries.clear();
  for (std::int64_t i = rows.begin; i < rows.begin + rows.count; ++i)
    entries.push_back({static_cast<R>(values[i * heads]), static_cast<std::int32_t>(i)});
}

// body(sequence, head) for all of them, in parallel.
template <class Body>
void for_heads(const Context& context, const RowList& sequences, std::int64_t heads, Body&& body) {
  const ZoneTimer timer(context.zones(), Zone::elementwise);
  parallel_for(context, static_cast<std::int64_t>(sequences.size()) * heads,
               [&](std::int64_t task) { body(task / heads, task % heads); });
}

}  // namespace

template <>
void kernels::top_indices<Device::cpu>(const Context& context, const TopIndices& io) {
  const std::int64_t n = io.scores.dim(1), heads = io.scores.dim(2), count = io.count;
  visit_float(io.scores.dtype(), [&]<class T>() {
    for_heads(context, *io.sequences, heads, [&](std::int64_t s, std::int64_t head) {
      const Sequences::Rows& sequence = (*io.sequences)[static_cast<std::size_t>(s)];
      std::vector<Entry<Wide<T>>> entries;
      read_entries(io.scores.data<T>() + sequence.batch * n * heads + head, heads, sequence, entries);
      const std::int64_t found = std::min(count, sequence.count);
      if (found < sequence.count)
        std::nth_element(entries.begin(), entries.begin() + found, entries.end(), above<Wide<T>>);
      std::sort(entries.begin(), entries.begin() + found, [](const auto& a, const auto& b) { return a.row < b.row; });
      std::int32_t* to = io.out.data<std::int32_t>() + s * count * heads + head;
      for (std::int64_t k = 0; k < count; ++k)
        to[k * heads] = k < found ? entries[static_cast<std::size_t>(k)].row : -1;
    });
  });
}

template <>
void kernels::argsort<Device::cpu>(const Context& context, const Argsort& io) {
  const std::int64_t n = io.keys.dim(1), heads = io.keys.dim(2);
  auto* out = io.out.data<std::int32_t>();
  if (!covers(*io.sequences, io.keys.shape()))
    for (std::int64_t i = 0; i < io.out.numel(); ++i) out[i] = static_cast<std::int32_t>(i / heads % n);
  for_heads(context, *io.sequences, heads, [&](std::int64_t s, std::int64_t head) {
    const Sequences::Rows& sequence = (*io.sequences)[static_cast<std::size_t>(s)];
    const std::int64_t first = sequence.batch * n * heads + head;
    std::vector<Entry<std::int64_t>> entries;
    read_entries(io.keys.data<std::int64_t>() + first, heads, sequence, entries);
    std::stable_sort(entries.begin(), entries.end(), [](const auto& a, const auto& b) { return a.value < b.value; });
    std::int32_t* to = out + first + sequence.begin * heads;
    for (std::size_t i = 0; i < entries.size(); ++i) to[static_cast<std::int64_t>(i) * heads] = entries[i].row;
  });
}

}  // namespace fovea
