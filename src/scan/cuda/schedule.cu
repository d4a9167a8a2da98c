#include "scan/cuda/schedule.h"

#include <algorithm>
#include <bit>

#include "core/cuda/uploads.h"

namespace fovea::scan::cuda {
namespace {

constexpr std::int64_t kChunk = 64;      // rows that tensor cores take at a time
constexpr std::int64_t kUnits = 528;     // blocks that fill an H200: 4 on each multiprocessor
constexpr std::int64_t kNormWarps = 12;  // of the norm on a multiprocessor, if its blocks are small
constexpr std::int64_t kSegmentRows = 256, kRangeRows = 128;

std::int64_t divide_up(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

// A piece is cut only where pieces and heads alone leave the card half empty: a segment's state costs another pass.
std::int64_t segment_rows(const Problem& problem, std::int64_t n) {
  const std::int64_t units = static_cast<std::int64_t>(problem.pieces.size()) * problem.heads;
  if (units > kUnits / 3) return std::max<std::int64_t>(n, 1);
  return divide_up(std::max(kSegmentRows, divide_up(n, divide_up(kUnits, units))), kChunk) * kChunk;
}
std::int64_t sum_rows(const Problem& problem, std::int64_t n) {
  const std::int64_t units = static_cast<std::int64_t>(problem.pieces.size()) * problem.heads;
  return divide_up(std::max(kSegmentRows, divide_up(n, divide_up(2 * kUnits, units))), kChunk) * kChunk;
}

// At least one cut for every piece, even if it is empty.
std::int32_t cut(std::vector<Cut>& cuts, std::size_t piece, std::int64_t n, std::int64_t rows) {
  const auto number = static_cast<std::int32_t>(piece);
  const std::size_t before = cuts.size();
  cuts.push_back({number, 0, std::min(n, rows)});
  for (std::int64_t at = rows; at < n; at += rows) cuts.push_back({number, at, std::min(n, at + rows)});
  return static_cast<std::int32_t>(cuts.size() - before);
}

std::shared_ptr<const Schedule> make_schedule(const Problem& problem, bool causal) {
  auto made = std::make_shared<Schedule>();
  std::vector<Cut> segments, query_segments, query_ranges, key_ranges, norm_ranges;
  std::int64_t queries = 0;
  for (const Piece& piece : problem.pieces) queries += piece.nq;
  // A block of the norm has a warp for each head: few heads leave room for more blocks on a multiprocessor.
  const std::int64_t norm_blocks = kUnits / 4 * std::max<std::int64_t>(1, kNormWarps / problem.heads);
  const std::int64_t norm_rows = divide_up(std::max<std::int64_t>(1, divide_up(queries, norm_blocks)), kChunk) * kChunk;
  for (std::size_t p = 0; p < problem.pieces.size(); ++p) {
    const Piece& piece = problem.pieces[p];
    PieceView view{piece.batch,      piece.q0,      piece.nq, piece.k0, piece.nk, causal ? piece.nk - piece.nq : 0,
                   made->query_rows, made->key_rows};
    view.first_cut = static_cast<std::int32_t>(segments.size());
    view.cuts = cut(segments, p, piece.nk, causal ? segment_rows(problem, piece.nk) : sum_rows(problem, piece.nk));
    view.first_query_cut = static_cast<std::int32_t>(query_segments.size());
    view.query_cuts = cut(query_segments, p, piece.nq, sum_rows(problem, piece.nq));
    cut(query_ranges, p, piece.nq, kRangeRows);
    cut(key_ranges, p, piece.nk, kRangeRows);
    cut(norm_ranges, p, piece.nq, norm_rows);
    made->host_pieces.push_back(view);
    made->query_rows += piece.nq;
    made->key_rows += piece.nk;
    made->longest = std::max({made->longest, piece.nq, piece.nk});
    made->is_cut |= view.cuts > 1;
  }
  std::vector<double> decays;
  if (problem.log_decay != nullptr) decays.assign(problem.log_decay, problem.log_decay + problem.kv_heads);
  Uploader uploader;
  const std::size_t pieces_at = uploader.place(made->host_pieces), decays_at = uploader.place(decays);
  const std::vector<Cut>* lists[] = {&segments, &query_segments, &query_ranges, &key_ranges, &norm_ranges};
  Cuts* to[] = {&made->segments, &made->query_segments, &made->query_ranges, &made->key_ranges, &made->norm_ranges};
  std::size_t at[5];
  for (int i = 0; i < 5; ++i) at[i] = uploader.place(*lists[i]);
  made->memory = uploader.upload();
  const std::byte* base = made->memory.data();
  made->pieces = reinterpret_cast<const PieceView*>(base + pieces_at);
  made->head_decay = reinterpret_cast<const double*>(base + decays_at);
  for (int i = 0; i < 5; ++i)
    *to[i] = {reinterpret_cast<const Cut*>(base + at[i]), static_cast<std::int32_t>(lists[i]->size())};
  made->causal = causal;
  made->is_step = made->longest <= 1;
  return made;
}

}  // namespace

std::shared_ptr<const Schedule> schedule_for(const Problem& problem, bool causal) {
  static auto* const kSchedules = new Recent<std::vector<std::int64_t>, Schedule>(256);  // outlives the driver's end
  int device = 0;
  check_cuda(cudaGetDevice(&device), "the current device");
  std::vector<std::int64_t> key{device, causal, problem.heads, problem.kv_heads, problem.log_decay != nullptr};
  for (std::int64_t g = 0; problem.log_decay != nullptr && g < problem.kv_heads; ++g)
    key.push_back(std::bit_cast<std::int64_t>(problem.log_decay[g]));
  for (const Piece& p : problem.pieces) key.insert(key.end(), {p.batch, p.q0, p.nq, p.k0, p.nk});
  return kSchedules->find(key, [&] { return make_schedule(problem, causal); });
}

}  // namespace fovea::scan::cuda
