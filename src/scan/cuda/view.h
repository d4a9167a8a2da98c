#pragma once

#include <cstdint>

#include "policy/hd.h"
#include "scan/contract.h"

// What the kernels see of a call: plain data, the same on host and device.
namespace fovea::scan::cuda {

struct PieceView {
  std::int64_t batch, q0, nq, k0, nk;
  std::int64_t shift;                                // query i stands at position i + shift; 0 without causal order
  std::int64_t first_q, first_k;                     // rows of all pieces before
  std::int32_t first_cut = 0, cuts = 0;              // of the scan, or of the sums over keys
  std::int32_t first_query_cut = 0, query_cuts = 0;  // of the sums over queries

  // Queries in front of all keys of a causal piece read nothing.
  FOVEA_HD bool reads(std::int64_t query) const { return query + shift >= 0; }
};

// Rows [begin, end) of a piece.
struct Cut {
  std::int32_t piece;
  std::int64_t begin, end;
};

// What the gradient of y is made of: (d_o - pull o) factor, and in the extra column `extra`.
template <class R>
struct RowScale {
  R factor, pull, extra;
};

struct Call {
  const PieceView* pieces = nullptr;
  std::int32_t heads = 0, kv_heads = 0, d_k = 0, d_v = 0, width = 0;
  std::int64_t query_rows = 0, key_rows = 0;  // of all pieces
  DType dtype = DType::f32, output_type = DType::f32;
  bool causal = false, rms_norm = false;
  Map map = Map::identity;
  Decay decay = Decay::none;
  const double* head_decay = nullptr;  // logs, of kv heads
  Denominator denominator = Denominator::none;
  double denominator_eps = 0.0, norm_eps = 0.0;
  In q, k, v, log_decay, o, rest, statistic, d_o;
  Out out, out_rest, out_statistic, dq, dk, dv, d_log_decay;
  const void* row_scales = nullptr;  // RowScale: [query rows][heads]; null: y is o

  FOVEA_HD std::int32_t group() const { return heads / kv_heads; }
  FOVEA_HD std::int32_t kv_head_of(std::int32_t head) const { return head / group(); }
  FOVEA_HD std::int64_t state_size() const { return std::int64_t{d_k} * width; }
  FOVEA_HD std::int32_t decay_columns() const { return decay == Decay::channel ? d_k : (decay == Decay::step ? 1 : 0); }
};

// Offset of the first element of (batch, row, head).
template <class Pointer>
FOVEA_HD std::int64_t offset_of(const Array<Pointer>& array, std::int64_t batch, std::int64_t row, std::int64_t head) {
  return batch * array.batch + row * array.row + head * array.head;
}

}  // namespace fovea::scan::cuda
