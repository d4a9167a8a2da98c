#include "parallel/cut.h"

#include "fovea/error.h"

namespace fovea::divided {
namespace {

// use(rows of the whole, rows of the part), as pairs of begin and end along the axis, for every run of a rank.
template <class Use>
void each_run(const WeightCut& cut, const dist::Group& ranks, int rank, const Use& use) {
  std::int64_t run_at = 0, at = 0;
  for (const std::int64_t run : cut.runs) {
    const std::int64_t begin = dist::part_begin(run, ranks.size(), rank),
                       count = dist::part_begin(run, ranks.size(), rank + 1) - begin;
    use(run_at + begin, at, count);
    run_at += run;
    at += count;
  }
}

}  // namespace

Shape whole_shape(const Shape& part, const WeightCut& cut) {
  return cut.cuts() ? part.with(cut.axis, cut.size()) : part;
}

Shape part_shape(const Shape& whole, const WeightCut& cut, const dist::Group& ranks, int rank) {
  if (!cut.cuts()) return whole;
  std::int64_t size = 0;
  each_run(cut, ranks, rank, [&](std::int64_t, std::int64_t, std::int64_t count) {
    if (count == 0)
      fail(ErrorCode::usage,
           "nothing is left of a weight of shape " + whole.text() + " for one of " + std::to_string(ranks.size()) +
               " ranks",
           "--mesh", "a smaller axis tensor");
    size += count;
  });
  return whole.with(cut.axis, size);
}

void copy_part(const Tensor& whole, const WeightCut& cut, const dist::Group& ranks, const Tensor& part) {
  if (!cut.cuts() || ranks.size() == 1) return part.copy_from(whole);
  each_run(cut, ranks, ranks.rank(), [&](std::int64_t from, std::int64_t to, std::int64_t count) {
    part.slice(cut.axis, to, to + count).copy_from(whole.slice(cut.axis, from, from + count));
  });
}

Tensor part_of(const Context& context, const Tensor& whole, const WeightCut& cut, const dist::Group& ranks,
               Lifetime lifetime) {
  const Tensor part =
      Tensor::empty(context, part_shape(whole.shape(), cut, ranks, ranks.rank()), whole.dtype(), lifetime);
  copy_part(whole, cut, ranks, part);
  return part;
}

Tensor whole_of(const Context& context, const Tensor& part, const WeightCut& cut, const dist::Group& ranks) {
  if (!cut.cuts() || ranks.size() == 1) return part;
  const Shape shape = whole_shape(part.shape(), cut);
  std::vector<std::int64_t> numbers;
  for (int r = 0; r < ranks.size(); ++r) numbers.push_back(part_shape(shape, cut, ranks, r).numel());
  const Tensor all = ranks.all_gather(context, part.contiguous(context).reshape({-1}), numbers);
  const Tensor whole = Tensor::empty(context, shape, part.dtype());
  std::int64_t begin = 0;
  for (int r = 0; r < ranks.size(); ++r) {
    const std::int64_t end = begin + numbers[static_cast<std::size_t>(r)];
    const Tensor from = all.slice(0, begin, end).reshape(part_shape(shape, cut, ranks, r));
    each_run(cut, ranks, r, [&](std::int64_t at, std::int64_t of_part, std::int64_t count) {
      whole.slice(cut.axis, at, at + count).copy_from(from.slice(cut.axis, of_part, of_part + count));
    });
    begin = end;
  }
  return whole;
}

}  // namespace fovea::divided
