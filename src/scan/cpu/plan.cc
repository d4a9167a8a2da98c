#include "scan/cpu/plan.h"

#include <algorithm>
#include <limits>

#include "simd/product.h"

namespace fovea::scan {
namespace {

// 32 rows are the fastest chunk at d 64 (64 rows take 1.1 times the time, 128 rows 1.5 times): the triangle inside a
// chunk is work that grows with it.
constexpr std::int64_t kChunk = 32;

// Where channels decay each on their own, the triangle is no product and costs more: as many rows as a vector has.
std::int64_t most_rows(const Problem& problem) {
  if (problem.decay != Decay::channel) return std::numeric_limits<std::int64_t>::max();
  return problem.dtype == DType::f64 ? kPad<double> : kPad<float>;
}

constexpr std::int64_t kSumRows = 256, kSumSegments = 32;
constexpr std::int64_t kRowRange = 256;
constexpr std::int64_t kScanRows = 512, kScanUnits = 8, kScanSegments = 16;
constexpr std::size_t kWaveBytes = std::size_t{64} << 20;

std::int64_t divide_up(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }
std::int64_t whole_chunks(std::int64_t rows) { return divide_up(rows, kChunk) * kChunk; }

std::int64_t sum_rows(std::int64_t n) { return whole_chunks(std::max(kSumRows, divide_up(n, kSumSegments))); }

std::int64_t scan_rows(const Problem& problem, std::int64_t n) {
  const std::int64_t units = static_cast<std::int64_t>(problem.pieces.size()) * problem.kv_heads;
  if (units >= kScanUnits) return n;
  return whole_chunks(std::max(kScanRows, divide_up(n, divide_up(kScanSegments, units))));
}

void cut(std::size_t piece, std::int64_t n, std::int64_t rows, std::vector<Cut>& out) {
  out.push_back({piece, 0, std::min(n, rows)});
  for (std::int64_t at = rows; at < n; at += rows) out.push_back({piece, at, std::min(n, at + rows)});
}

std::int64_t rows_of(const Piece& piece, Side side) { return side == Side::keys ? piece.nk : piece.nq; }

}  // namespace

std::int64_t choose_chunk(const Problem& problem) {
  std::int64_t longest = 1;
  for (const Piece& piece : problem.pieces) longest = std::max({longest, piece.nq, piece.nk});
  return std::min({longest, problem.chunk > 0 ? problem.chunk : kChunk, most_rows(problem)});
}

std::vector<Cut> cut_for_sums(const Problem& problem, std::size_t first, std::size_t last, Side side) {
  std::vector<Cut> cuts;
  for (std::size_t p = first; p < last; ++p) {
    const std::int64_t n = rows_of(problem.pieces[p], side);
    cut(p, n, sum_rows(n), cuts);
  }
  return cuts;
}

std::vector<Cut> cut_for_rows(const Problem& problem, std::size_t first, std::size_t last, Side side) {
  std::vector<Cut> cuts;
  for (std::size_t p = first; p < last; ++p) cut(p, rows_of(problem.pieces[p], side), kRowRange, cuts);
  return cuts;
}

std::vector<Cut> cut_for_scan(const Problem& problem, std::size_t first, std::size_t last) {
  std::vector<Cut> cuts;
  for (std::size_t p = first; p < last; ++p) {
    const std::int64_t n = problem.pieces[p].nk;
    cut(p, n, std::max<std::int64_t>(1, scan_rows(problem, n)), cuts);
  }
  return cuts;
}

std::vector<Wave> make_waves(const Problem& problem, std::size_t state_bytes) {
  std::vector<Wave> waves;
  std::size_t bytes = kWaveBytes;  // full: the first piece opens a wave
  for (std::size_t p = 0; p < problem.pieces.size(); ++p) {
    const Piece& piece = problem.pieces[p];
    const std::int64_t longest = std::max(piece.nq, piece.nk);
    const auto segments = static_cast<std::size_t>(
        std::max({std::int64_t{1}, divide_up(longest, sum_rows(longest)),
                  divide_up(longest, std::max<std::int64_t>(1, scan_rows(problem, longest)))}));
    if (bytes + segments * state_bytes > kWaveBytes) {
      waves.push_back({p, p});
      bytes = 0;
    }
    bytes += segments * state_bytes;
    waves.back().last = p + 1;
  }
  return waves;
}

int choose_lanes(std::size_t segments, std::int64_t kv_heads, int threads) {
  int best = 1;
  std::int64_t least = std::numeric_limits<std::int64_t>::max();
  for (int lanes = 1; lanes <= std::min<std::int64_t>(threads, kv_heads); ++lanes) {
    const std::int64_t tasks = static_cast<std::int64_t>(segments) * lanes;
    const std::int64_t time = divide_up(tasks, threads) * divide_up(kv_heads, lanes);
    if (time < least) {
      least = time;
      best = lanes;
    }
  }
  return best;
}

}  // namespace fovea::scan
