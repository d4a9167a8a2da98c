#include <fmt/format.h>

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

// Copies one sequence, checking every id.
void copy_ids(std::int64_t limit, const char* kind, std::span<const std::int32_t> from, std::int32_t* to,
              std::size_t index) {
  for (std::size_t i = 0; i < from.size(); ++i) {
    if (from[i] < 0 || from[i] >= limit)
      fail(ErrorCode::bad_input,
           fmt::format("{} {} outside the {} 0 .. {}", kind, from[i],
                       std::string_view(kind) == "token" ? "vocabulary" : "range", limit - 1),
           fmt::format("{}, position {}", sequence_name(index), i));
    to[i] = from[i];
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
  layout->positions = Tensor::empty(context, {batch, n}, DType::i32);
  for (std::int64_t i = 0; i < batch * n; ++i)
    layout->positions.data<std::int32_t>()[i] = static_cast<std::int32_t>(i % n);
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
  layout->positions = Tensor::zeros(context, {batch, wide}, DType::i32);
  layout->pasts = pasts;
  Arranged out{Tensor::zeros(context, {batch, wide}, DType::i32), {}, {}};
  if (input.types.defined()) out.types = Tensor::zeros(context, {batch, wide}, DType::i32);
  const Tensor ids = input.ids.contiguous(context);
  const Tensor types = input.types.defined() ? input.types.contiguous(context) : Tensor();
  const std::vector<Sequences::Rows> to = layout->rows.rows(batch, wide, "rows");
  for (std::size_t s = 0; s < from.size(); ++s) {
    const std::int64_t seen = pasts.empty() ? 0 : pasts[s]->length, ahead = spec.front ? 1 : 0;
    check_length(spec, s, seen + from[s].count);
    const std::int64_t source = from[s].batch * n + from[s].begin, start = to[s].batch * wide + to[s].begin;
    const auto length = static_cast<std::size_t>(from[s].count);
    std::int32_t* target = out.ids.data<std::int32_t>() + start;
    if (spec.front) *target = static_cast<std::int32_t>(spec.vocabulary);
    copy_ids(spec.vocabulary, "token", {ids.data<std::int32_t>() + source, length}, target + ahead, s);
    if (types.defined())
      copy_ids(spec.types, "type", {types.data<std::int32_t>() + source, length},
               out.types.data<std::int32_t>() + start + ahead, s);
    for (std::int64_t i = 0; i < to[s].count; ++i)
      layout->positions.data<std::int32_t>()[start + i] = static_cast<std::int32_t>(seen + i);
  }
  out.layout = std::move(layout);
  return out;
}

}  // namespace fovea::nn
