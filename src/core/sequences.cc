#include "fovea/sequences.h"

#include <string>

#include "fovea/error.h"

namespace fovea {
namespace {

std::vector<Sequences::Rows> padded(const std::vector<std::int32_t>& lengths, std::int64_t batch, std::int64_t n,
                                    const char* where) {
  if (static_cast<std::int64_t>(lengths.size()) != batch)
    fail(ErrorCode::shape, std::to_string(lengths.size()) + " lengths for a batch of " + std::to_string(batch), where);
  std::vector<Sequences::Rows> rows;
  for (std::int64_t b = 0; b < batch; ++b) {
    const std::int64_t length = lengths[static_cast<std::size_t>(b)];
    if (length < 0 || length > n)
      fail(ErrorCode::shape, "length " + std::to_string(length) + " outside [0, " + std::to_string(n) + "]",
           std::string(where) + "[" + std::to_string(b) + "]");
    rows.push_back({b, 0, length});
  }
  return rows;
}

std::vector<Sequences::Rows> packed(const std::vector<std::int32_t>& offsets, std::int64_t batch, std::int64_t n,
                                    const char* where) {
  if (batch != 1) fail(ErrorCode::shape, "packed sequences need a batch of 1, got " + std::to_string(batch), where);
  if (offsets.front() != 0 || offsets.back() > n)
    fail(ErrorCode::shape, "offsets must start at 0 and end at most at " + std::to_string(n), where);
  std::vector<Sequences::Rows> rows;
  for (std::size_t s = 0; s + 1 < offsets.size(); ++s) {
    if (offsets[s + 1] < offsets[s])
      fail(ErrorCode::shape, "offsets must not decrease", std::string(where) + "[" + std::to_string(s + 1) + "]");
    rows.push_back({0, offsets[s], offsets[s + 1] - offsets[s]});
  }
  return rows;
}

}  // namespace

std::vector<Sequences::Rows> Sequences::rows(std::int64_t batch, std::int64_t n, const char* where) const {
  if (!lengths.empty() && !cu_seqlens.empty())
    fail(ErrorCode::usage, "give lengths (padded) or cu_seqlens (packed), not both", where);
  if (!cu_seqlens.empty()) return packed(cu_seqlens, batch, n, where);
  if (!lengths.empty()) return padded(lengths, batch, n, where);
  std::vector<Rows> all;
  for (std::int64_t b = 0; b < batch; ++b) all.push_back({b, 0, n});
  return all;
}

}  // namespace fovea
