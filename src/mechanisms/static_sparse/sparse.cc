#include "mechanisms/static_sparse/sparse.h"

namespace fovea {
namespace {

constexpr std::int64_t kBeyond = std::int64_t{1} << 40;  // longer than any sequence

}  // namespace

AttentionResult run_parts(const Call& call, PartsOf parts) {
  Tiled tiled;
  tiled.parts = [&](std::int64_t n_q, std::int64_t n_k) {
    return parts(call.mechanism, {n_q, n_k, call.q.dim(2), call.options.layer, call.options.causal});
  };
  return run_tiled(call, tiled);
}

Flops parts_flops(const Sizes& s, const Mechanism& mechanism, PartsOf parts) {
  const auto n = static_cast<std::int64_t>(s.n), heads = static_cast<std::int64_t>(s.heads);
  return pairwise_flops(count_pairs(parts(mechanism, {n, n, heads, 0, s.causal}), s) / s.heads, s);
}

Pattern first_keys(std::int64_t count) { return Pattern::box({-kBeyond, kBeyond, 0, count}); }
Pattern first_queries(std::int64_t count) { return Pattern::box({0, count, 0, kBeyond}); }

std::int64_t grown(std::int64_t first, std::int64_t factor, std::int64_t layer) {
  for (std::int64_t i = 0; i < layer && factor > 1 && first < kBeyond; ++i) first *= factor;
  return std::min(first, kBeyond);
}

std::int64_t window_needs(std::int64_t left, const AttentionOptions& options, std::int64_t seen) {
  if (options.window && options.window->left >= 0) left = std::min(left, options.window->left);
  return std::max<std::int64_t>(0, seen - left);
}

}  // namespace fovea
