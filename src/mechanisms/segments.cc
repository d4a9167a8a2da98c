#include "mechanisms/segments.h"

#include "mechanisms/tiled.h"
#include "ops/sequence.h"

namespace fovea {
namespace {

// The table as an index for take_rows, (b, segments width, heads).
Tensor index_of(const Context& context, const SegmentTable& table, std::int64_t items, std::int64_t heads) {
  const std::int64_t places = std::ssize(table.rows) * table.width;
  std::vector<std::int32_t> index;
  index.reserve(static_cast<std::size_t>(items * places * heads));
  for (std::int64_t b = 0; b < items; ++b)
    for (const std::vector<std::int32_t>& rows : table.rows)
      for (std::int64_t r = 0; r < table.width; ++r)
        index.insert(index.end(), static_cast<std::size_t>(heads),
                     r < std::ssize(rows) ? rows[static_cast<std::size_t>(r)] : -1);
  return Tensor::from<std::int32_t>(context, {items, places, heads}, index);
}

std::vector<std::int32_t> repeated(const std::vector<std::int32_t>& counts, std::int64_t times) {
  std::vector<std::int32_t> all;
  for (std::int64_t t = 0; t < times; ++t) all.insert(all.end(), counts.begin(), counts.end());
  return all;
}

}  // namespace

Segments::Segments(std::int64_t n_q, std::int64_t n_k, std::int64_t length) : n_q_(n_q), length_(length) {
  const std::int64_t first = std::max<std::int64_t>(0, n_k - n_q);  // position of the first query that has one
  for (std::int64_t begin = first / length * length; begin < n_k; begin += length) {
    const std::int64_t end = std::min(n_k, begin + length), from = std::max(first, begin);
    spans_.push_back({begin, end, from - (n_k - n_q), end - from});
  }
}

SegmentTable Segments::queries() const {
  SegmentTable table{length_, {}};
  for (const Span& span : spans_) {
    table.rows.emplace_back();
    for (std::int64_t i = 0; i < span.count; ++i)
      table.rows.back().push_back(static_cast<std::int32_t>(span.query + i));
  }
  return table;
}

SegmentTable Segments::places() const {
  SegmentTable table{n_q_, {std::vector<std::int32_t>(static_cast<std::size_t>(n_q_), -1)}};
  for (std::size_t s = 0; s < spans_.size(); ++s)
    for (std::int64_t i = 0; i < spans_[s].count; ++i)
      table.rows[0][static_cast<std::size_t>(spans_[s].query + i)] =
          static_cast<std::int32_t>(static_cast<std::int64_t>(s) * length_ + i);
  return table;
}

std::vector<std::int32_t> Segments::query_counts() const {
  std::vector<std::int32_t> counts;
  for (const Span& span : spans_) counts.push_back(static_cast<std::int32_t>(span.count));
  return counts;
}

Var stack_rows(Tape& tape, const Var& x, const SegmentTable& table) {
  const std::int64_t segments = static_cast<std::int64_t>(table.rows.size());
  const Var rows = take_rows(tape, x, Index(index_of(tape.context(), table, x.dim(0), x.dim(2)), -1, x.dim(1)));
  return reshape(tape, rows, {x.dim(0) * segments, table.width, x.dim(2), x.dim(3)});
}

Var attend_segments(const Call& call, const Segments& segments, const Stacked& stacked, double scale) {
  Tape& tape = call.tape;
  const std::int64_t items = call.q.dim(0), total = stacked.q.dim(0) / items * stacked.q.dim(1);
  AttentionOptions options;
  options.causal = call.options.causal;
  options.scale = scale;
  options.queries.lengths = repeated(segments.query_counts(), items);
  options.keys.lengths = repeated(stacked.key_counts, items);
  const Call inner{tape,
                   stacked.q,
                   stacked.k,
                   stacked.v,
                   call.mechanism,
                   options,
                   options.queries.rows(stacked.q.dim(0), stacked.q.dim(1), "queries"),
                   options.keys.rows(stacked.k.dim(0), stacked.k.dim(1), "keys")};
  const Var o = run_tiled(inner, {}).output;
  return stack_rows(tape, reshape(tape, o, {items, total, o.dim(2), o.dim(3)}), segments.places());
}

}  // namespace fovea
