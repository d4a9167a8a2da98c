#include <fmt/format.h>

#include <numeric>

#include "fovea/zones.h"
#include "nn/embedding.h"

namespace fovea::nn {
namespace {

std::string sequence_name(std::size_t index) { return fmt::format("sequences[{}]", index); }

void check_length(const EmbeddingSpec& spec, std::size_t index, std::int64_t length) {
  if (length == 0) fail(ErrorCode::shape, "a sequence of length 0", sequence_name(index), "leave it out of the batch");
  if (spec.has_table() && length > spec.max_length)
    fail(ErrorCode::shape, fmt::format("{} tokens, but the model has positions for {}", length, spec.max_length),
         sequence_name(index), "a larger max_length, or shorter input");
}

using Ids = std::vector<std::int32_t>;

// Rows of the input and, in the same order, where they go.
struct Move {
  std::size_t from, to, count, sequence;
};

// Copies one sequence, checking every id.
void copy_ids(std::int64_t limit, std::string_view kind, const Ids& from, const Move& move, Ids& to) {
  for (std::size_t i = 0; i < move.count; ++i) {
    const std::int32_t id = from[move.from + i];
    if (id < 0 || id >= limit)
      fail(ErrorCode::bad_input,
           fmt::format("{} {} outside the {} 0 .. {}", kind, id, kind == "token" ? "vocabulary" : "range", limit - 1),
           fmt::format("{}, position {}", sequence_name(move.sequence), i));
    to[move.to + i] = id;
  }
}

// The same sequences, each one row longer.
Sequences with_front_row(const Sequences& rows, const std::vector<Sequences::Rows>& ranges) {
  Sequences longer;
  if (rows.cu_seqlens.empty()) {
    for (const auto& range : ranges) longer.lengths.push_back(static_cast<std::int32_t>(range.count + 1));
  } else {
    for (std::size_t s = 0; s < rows.cu_seqlens.size(); ++s)
      longer.cu_seqlens.push_back(rows.cu_seqlens[s] + static_cast<std::int32_t>(s));
  }
  return longer;
}

void check_input(const EmbeddingSpec& spec, const Input& input) {
  if (!input.ids.defined() || input.ids.rank() != 2 || input.ids.dtype() != DType::i32)
    fail(ErrorCode::shape, "token ids must be i32 of shape (batch, length)", "ids");
  if (!input.types.defined()) return;
  if (spec.types == 0) fail(ErrorCode::usage, "this model has no token types", "types", "leave them out");
  if (input.types.dtype() != DType::i32 || input.types.shape() != input.ids.shape())
    fail(ErrorCode::shape, "token types must be i32 of the shape of ids", "types");
}

}  // namespace

std::shared_ptr<const Layout> full_layout(const Context& context, std::int64_t batch, std::int64_t n) {
  auto layout = std::make_shared<Layout>();
  Ids positions(static_cast<std::size_t>(batch * n));
  for (std::size_t i = 0; i < positions.size(); ++i)
    positions[i] = static_cast<std::int32_t>(i % static_cast<std::size_t>(n));
  layout->positions = Tensor::from<std::int32_t>(context, {batch, n}, positions);
  layout->longest = n;
  return layout;
}

void advance(const Input& tokens, const std::vector<Past*>& pasts) {
  const auto rows = tokens.rows.rows(tokens.ids.dim(0), tokens.ids.dim(1), "rows");
  for (std::size_t s = 0; s < pasts.size(); ++s) pasts[s]->length += rows[s].count;
}

Arranged arrange(const Context& context, const EmbeddingSpec& spec, const Input& input,
                 const std::vector<Past*>& pasts) {
  const ZoneTimer timer(context.zones(), Zone::data);
  check_input(spec, input);
  const std::int64_t batch = input.ids.dim(0), n = input.ids.dim(1);
  const std::vector<Sequences::Rows> from = input.rows.rows(batch, n, "rows");
  const auto count = static_cast<std::int64_t>(from.size());
  const std::int64_t wide = !spec.front ? n : !input.rows.cu_seqlens.empty() ? n + count : n + 1;

  auto layout = std::make_shared<Layout>();
  layout->rows = spec.front ? with_front_row(input.rows, from) : input.rows;
  layout->pasts = pasts;
  const bool typed = input.types.defined();
  const Ids ids = input.ids.to_vector<std::int32_t>(), types = typed ? input.types.to_vector<std::int32_t>() : Ids();
  Ids arranged(static_cast<std::size_t>(batch * wide), 0), arranged_types(typed ? arranged.size() : 0, 0),
      positions(arranged.size(), 0);
  const std::vector<Sequences::Rows> to = layout->rows.rows(batch, wide, "rows");
  for (std::size_t s = 0; s < from.size(); ++s) {
    const std::int64_t seen = pasts.empty() ? 0 : pasts[s]->length, ahead = spec.front ? 1 : 0;
    check_length(spec, s, seen + from[s].count);
    const auto start = static_cast<std::size_t>(to[s].batch * wide + to[s].begin);
    const Move move{static_cast<std::size_t>(from[s].batch * n + from[s].begin),
                    start + static_cast<std::size_t>(ahead), static_cast<std::size_t>(from[s].count), s};
    if (spec.front) arranged[start] = static_cast<std::int32_t>(spec.vocabulary);
    copy_ids(spec.vocabulary, "token", ids, move, arranged);
    if (typed) copy_ids(spec.types, "type", types, move, arranged_types);
    std::iota(positions.begin() + static_cast<std::ptrdiff_t>(start),
              positions.begin() + static_cast<std::ptrdiff_t>(start) + to[s].count, static_cast<std::int32_t>(seen));
    layout->longest = std::max(layout->longest, seen + to[s].count);
  }
  const auto across = [&](const Ids& values) { return Tensor::from<std::int32_t>(context, {batch, wide}, values); };
  layout->positions = across(positions);
  const Index tokens(across(arranged), 0, spec.vocabulary + (spec.front ? 1 : 0));
  return {tokens, typed ? Index(across(arranged_types), 0, spec.types) : Index(), std::move(layout)};
}

}  // namespace fovea::nn
