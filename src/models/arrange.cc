#include "models/arrange.h"

#include <fmt/format.h>

#include "fovea/zones.h"

namespace fovea {
namespace {

std::string sequence_name(std::size_t index) { return fmt::format("sequences[{}]", index); }

void check_length(const ModelConfig& config, std::size_t index, std::int64_t length) {
  if (length == 0) fail(ErrorCode::shape, "a sequence of length 0", sequence_name(index), "leave it out of the batch");
  const bool table = config.positions == Positions::learned || config.positions == Positions::sinusoidal;
  if (table && length > config.max_length)
    fail(ErrorCode::shape, fmt::format("{} tokens, but the model has positions for {}", length, config.max_length),
         sequence_name(index), "a larger max_length, or shorter input");
}

// Copies one sequence, checking every token.
void copy_tokens(const ModelConfig& config, std::span<const std::int32_t> from, std::int32_t* to, std::size_t index) {
  for (std::size_t i = 0; i < from.size(); ++i) {
    if (from[i] < 0 || from[i] >= config.vocabulary)
      fail(ErrorCode::bad_input, fmt::format("token {} outside the vocabulary 0 .. {}", from[i], config.vocabulary - 1),
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

}  // namespace

Arranged arrange(const Context& context, const ModelConfig& config, const Tensor& ids, const Sequences& rows) {
  const ZoneTimer timer(context.zones(), Zone::data);
  if (!ids.defined() || ids.rank() != 2 || ids.dtype() != DType::i32)
    fail(ErrorCode::shape, "token ids must be i32 of shape (batch, length)", "ids");
  const std::int64_t batch = ids.dim(0), n = ids.dim(1);
  const bool packed = !rows.cu_seqlens.empty(), front = config.pooling == Pooling::cls;
  const std::vector<Sequences::Rows> from = rows.rows(batch, n, "rows");
  const auto count = static_cast<std::int64_t>(from.size());
  const std::int64_t wide = !front ? n : packed ? n + count : n + 1;

  auto layout = std::make_shared<nn::Layout>();
  layout->rows = front ? with_front_row(rows, from) : rows;
  layout->positions = Tensor::zeros(context, {batch, wide}, DType::i32);
  const Tensor out = Tensor::zeros(context, {batch, wide}, DType::i32);
  const Tensor source = ids.contiguous(context);
  const std::vector<Sequences::Rows> to = layout->rows.rows(batch, wide, "rows");
  for (std::size_t s = 0; s < from.size(); ++s) {
    check_length(config, s, from[s].count);
    const std::int32_t* tokens = source.data<std::int32_t>() + from[s].batch * n + from[s].begin;
    const std::int64_t start = to[s].batch * wide + to[s].begin;
    std::int32_t* target = out.data<std::int32_t>() + start;
    if (front) *target++ = static_cast<std::int32_t>(config.vocabulary);
    copy_tokens(config, {tokens, static_cast<std::size_t>(from[s].count)}, target, s);
    for (std::int64_t i = 0; i < to[s].count; ++i)
      layout->positions.data<std::int32_t>()[start + i] = static_cast<std::int32_t>(i);
  }
  return {out, std::move(layout)};
}

}  // namespace fovea
