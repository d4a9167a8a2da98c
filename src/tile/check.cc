#include "tile/check.h"

#include <cmath>
#include <limits>
#include <string>

#include "fovea/error.h"

namespace fovea::tile {
namespace {

constexpr std::int64_t kMaxWidth = 1 << 16;
constexpr std::int64_t kMaxRow = std::int64_t{1} << 32;  // rows are half of a dropout counter

[[noreturn]] void refuse(ErrorCode code, const std::string& what, const char* hint = "") {
  fail(code, what, "tiled attention", hint);
}

// Is every row of first, first + step, ... below kMaxRow?
bool rows_fit(std::int64_t first, std::int64_t count, std::int64_t step) {
  return count == 0 || (first < kMaxRow && count - 1 <= (kMaxRow - 1 - first) / step);
}

void check_piece(const Piece& piece) {
  if (piece.batch < 0 || piece.q0 < 0 || piece.k0 < 0 || piece.nq < 0 || piece.nk < 0)
    refuse(ErrorCode::shape, "a piece with a negative offset or length");
  if (piece.q_step < 1 || piece.k_step < 1)
    refuse(ErrorCode::shape,
           "a piece with steps " + std::to_string(piece.q_step) + " and " + std::to_string(piece.k_step),
           "steps are 1 or more");
  if (!rows_fit(piece.q0, piece.nq, piece.q_step) || !rows_fit(piece.k0, piece.nk, piece.k_step) ||
      piece.gap < -kMaxRow || piece.gap > kMaxRow)
    refuse(ErrorCode::shape, "a piece beyond row 2^32");
  if (piece.plan == nullptr) refuse(ErrorCode::internal, "a piece without a plan");
  if (piece.plan->n_q != piece.nq || piece.plan->n_k != piece.nk)
    refuse(ErrorCode::internal, "a plan for lengths " + std::to_string(piece.plan->n_q) + " and " +
                                    std::to_string(piece.plan->n_k) + " given to a piece of " +
                                    std::to_string(piece.nq) + " and " + std::to_string(piece.nk));
}

template <class Pointer>
void need(const Array<Pointer>& array, const char* name) {
  if (array.data == nullptr) refuse(ErrorCode::usage, std::string(name) + " is missing");
}

// Have the pieces any query rows, any key rows? Arrays of none may have no memory.
struct Rows {
  bool queries = false, keys = false;
};
Rows rows_of(const Problem& problem) {
  Rows rows;
  for (const Piece& piece : problem.pieces) {
    rows.queries |= piece.nq > 0;
    rows.keys |= piece.nk > 0;
  }
  return rows;
}

void check_arrays(const Problem& problem, const Forward& io) {
  const Rows rows = rows_of(problem);
  if (rows.queries) {
    need(io.q, "q");
    need(io.o, "o");
  }
  if (rows.keys) {
    need(io.k, "k");
    need(io.v, "v");
  }
}

void check_arrays(const Problem& problem, const Backward& io) {
  if (io.d_bias.data != nullptr && problem.bias.data == nullptr)
    refuse(ErrorCode::usage, "a gradient of a bias without the bias");
  const Rows rows = rows_of(problem);
  if (rows.queries) {
    need(io.q, "q");
    need(io.d_o, "the gradient of o");
    need(io.dq, "dq");
  }
  if (rows.keys) {
    need(io.k, "k");
    need(io.v, "v");
    need(io.dk, "dk");
    need(io.dv, "dv");
  }
}

// Rows of the whole, of which this problem may be a part.
void check_dropout(const Dropout& dropout, std::span<const Piece> pieces) {
  if (!(dropout.p >= 0.0f && dropout.p < 1.0f))
    refuse(ErrorCode::usage, "dropout " + std::to_string(dropout.p), "a probability from 0 to below 1");
  for (const Piece& piece : pieces) {
    if (dropout.first_head < 0 || dropout.first_query + piece.q0 < 0 || dropout.first_key + piece.k0 < 0)
      refuse(ErrorCode::usage, "dropout of a part that starts before the whole");
    if (!rows_fit(dropout.first_query + piece.q0, piece.nq, piece.q_step) ||
        !rows_fit(dropout.first_key + piece.k0, piece.nk, piece.k_step))
      refuse(ErrorCode::shape, "dropout beyond row 2^32");
  }
}

void check_rule(const RowRule& rule) {
  if (rule.kind == RowRuleKind::top_k && rule.k < 1)
    refuse(ErrorCode::usage, "the " + std::to_string(rule.k) + " largest scores of a row", "k is 1 or more");
  if (rule.kind == RowRuleKind::margin && !(rule.margin >= 0.0 && std::isfinite(rule.margin)))
    refuse(ErrorCode::usage, "a margin of " + std::to_string(rule.margin), "a finite number from 0 on");
}

}  // namespace

void check(const Problem& problem) {
  if (!is_float(problem.dtype))
    refuse(ErrorCode::usage, "dtype " + std::string(name_of(problem.dtype)), "f32, bf16, f16 or f64");
  if (problem.heads < 1 || problem.kv_heads < 1 || problem.heads % problem.kv_heads != 0)
    refuse(ErrorCode::shape,
           std::to_string(problem.heads) + " query heads over " + std::to_string(problem.kv_heads) + " key heads",
           "the number of query heads is a multiple of the number of key heads");
  if (problem.d_k < 1 || problem.d_v < 1 || problem.d_k > kMaxWidth || problem.d_v > kMaxWidth)
    refuse(ErrorCode::shape, "head widths " + std::to_string(problem.d_k) + " and " + std::to_string(problem.d_v));
  if (!std::isfinite(problem.scale)) refuse(ErrorCode::usage, "the scale is not a finite number");
  if (!std::isfinite(problem.offset)) refuse(ErrorCode::usage, "the offset is not a finite number");
  if ((problem.weight == Weight::power || problem.weight == Weight::taylor) && problem.degree != 2 &&
      problem.degree != 4)
    refuse(ErrorCode::usage, "weights of degree " + std::to_string(problem.degree), "2 or 4");
  for (const Piece& piece : problem.pieces) {
    check_piece(piece);
    if (piece.kv_head < -1 || piece.kv_head >= problem.kv_heads)
      refuse(ErrorCode::shape,
             "a piece of key head " + std::to_string(piece.kv_head) + " among " + std::to_string(problem.kv_heads));
  }
  check_dropout(problem.dropout, problem.pieces);
}

void check(const Problem& problem, const Forward& io) {
  check(problem);
  check_arrays(problem, io);
}

void check(const Problem& problem, const Forward& io, const RowStatistics& statistics) {
  check(problem, io);
  if (problem.weight != Weight::softmax) refuse(ErrorCode::unsupported, "statistics of weights other than softmax");
  if (statistics.top < 1) refuse(ErrorCode::usage, std::to_string(statistics.top) + " keys kept of a row", "1 or more");
  for (const Piece& piece : problem.pieces)
    if (piece.nk > 0 && piece.key_row(piece.nk - 1) > std::numeric_limits<std::int32_t>::max())
      refuse(ErrorCode::shape, "statistics of keys beyond row 2^31");
  if (!rows_of(problem).queries) return;
  need(statistics.entropy, "the entropy of rows");
  need(statistics.top_keys, "the array of the largest keys");
  need(statistics.top_scores, "the array of the largest scores");
}

void check(const Problem& problem, const Backward& io) {
  check(problem);
  check_arrays(problem, io);
  const bool statistic = has_statistic(problem.weight);
  if (!statistic && io.d_lse.data != nullptr)
    refuse(ErrorCode::unsupported, "a gradient of the log-sum-exp of weights that have none");
  if (statistic && rows_of(problem).queries) {
    need(io.o, "o");
    need(io.lse, "the log-sum-exp");
  }
}

void check(const Problem& problem, const RowRule& rule, const Forward& io) {
  check(problem);
  check_rule(rule);
  check_arrays(problem, io);
  if (io.lse.data != nullptr) refuse(ErrorCode::unsupported, "the log-sum-exp of a row rule");
}

void check(const Problem& problem, const RowRule& rule, const Backward& io) {
  check(problem);
  check_rule(rule);
  check_arrays(problem, io);
  if (io.d_lse.data != nullptr) refuse(ErrorCode::unsupported, "a gradient of the log-sum-exp of a row rule");
}

}  // namespace fovea::tile
