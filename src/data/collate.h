#pragma once

#include <algorithm>
#include <limits>
#include <span>
#include <vector>

#include "fovea/data.h"
#include "fovea/error.h"
#include "tensor/views.h"

namespace fovea {

// Sequences one after another: ids i32 (1, total), on the host, where models check them; rows with cu_seqlens.
template <class Id>
Input packed_rows(const Context& context, const std::vector<std::span<const Id>>& sequences) {
  Input input;
  std::int64_t total = 0;
  input.rows.cu_seqlens = {0};
  for (const auto& sequence : sequences) {
    total += std::ssize(sequence);
    if (total > std::numeric_limits<std::int32_t>::max())
      fail(ErrorCode::usage, "a batch has more than 2^31 tokens", "batch_size", "a smaller batch");
    input.rows.cu_seqlens.push_back(static_cast<std::int32_t>(total));
  }
  input.ids = host_room(context, {1, total}, DType::i32);
  std::int32_t* out = input.ids.data<std::int32_t>();
  for (const auto& sequence : sequences) out = std::copy(sequence.begin(), sequence.end(), out);
  return input;
}

}  // namespace fovea
