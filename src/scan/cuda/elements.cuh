#pragma once

#include "core/cuda/storage.cuh"
#include "policy/feature_map.h"
#include "scan/cuda/view.h"

// Elements of the rows that go into states and out of them.
namespace fovea::scan::cuda {

using namespace device;  // NOLINT: what the engines on a card share

template <class R>
__device__ inline R feature(Map map, R x) {
  switch (map) {
    case Map::identity: break;
    case Map::elu_plus_one: return policy::EluPlusOneMap::apply(x);
    case Map::elu: return policy::EluMap::apply(x);
    case Map::relu: return policy::ReluMap::apply(x);
  }
  return x;
}
template <class R>
__device__ inline R slope(Map map, R feature) {
  switch (map) {
    case Map::identity: break;
    case Map::elu_plus_one: return policy::EluPlusOneMap::slope(feature);
    case Map::elu: return policy::EluMap::slope(feature);
    case Map::relu: return policy::ReluMap::slope(feature);
  }
  return 1;
}

// Features of keys and queries, values with their one, gradients of y.
enum class Source : std::uint8_t { keys, values, queries, gradients };

FOVEA_HD inline std::int32_t width_of(const Call& call, Source source) {
  return source == Source::keys || source == Source::queries ? call.d_k : call.width;
}
FOVEA_HD inline bool is_of_queries(Source source) { return source == Source::queries || source == Source::gradients; }

// One row of a source.
template <class R>
struct SourceRow {
  const Call& call;
  Source source;
  std::int64_t at = 0, o_at = 0, rest_at = 0;
  RowScale<R> scale{1, 0, 0};

  // `row` counts in the piece; `head` is a head of the queries or, of keys and values, of those.
  __device__ SourceRow(const Call& call, Source source, const PieceView& piece, std::int64_t row, std::int32_t head)
      : call(call), source(source) {
    switch (source) {
      case Source::keys: at = offset_of(call.k, piece.batch, piece.k0 + row, head); return;
      case Source::values: at = offset_of(call.v, piece.batch, piece.k0 + row, head); return;
      case Source::queries: at = offset_of(call.q, piece.batch, piece.q0 + row, head); return;
      case Source::gradients: break;
    }
    at = offset_of(call.d_o, piece.batch, piece.q0 + row, head);
    if (call.row_scales == nullptr) return;
    scale = static_cast<const RowScale<R>*>(call.row_scales)[(piece.first_q + row) * call.heads + head];
    o_at = offset_of(call.o, piece.batch, piece.q0 + row, head);
    rest_at = offset_of(call.rest, piece.batch, piece.q0 + row, head);
  }
  __device__ R operator[](std::int32_t column) const {
    switch (source) {
      case Source::keys: return feature<R>(call.map, load_as<R>(call.k.data, call.dtype, at + column));
      case Source::queries: return feature<R>(call.map, load_as<R>(call.q.data, call.dtype, at + column));
      case Source::values: return column == call.d_v ? R{1} : load_as<R>(call.v.data, call.dtype, at + column);
      case Source::gradients: break;
    }
    if (call.row_scales == nullptr) return load_as<R>(call.d_o.data, call.output_type, at + column);
    if (column == call.d_v) return scale.extra;
    R x = load_as<R>(call.d_o.data, call.output_type, at + column);
    if (scale.pull != 0) {
      x -= load_as<R>(call.o.data, call.output_type, o_at + column) * scale.pull;
      if (call.rest.data != nullptr) x -= load_as<R>(call.rest.data, call.output_type, rest_at + column) * scale.pull;
    }
    return x * scale.factor;
  }
};

// e^g of a step, by channel where channels have their own.
template <class R>
__device__ inline R decay_of(const Call& call, const PieceView& piece, std::int64_t row, std::int32_t kv_head,
                             std::int32_t channel) {
  if (call.decay == Decay::head) return static_cast<R>(exp(call.head_decay[kv_head]));
  const std::int64_t at = offset_of(call.log_decay, piece.batch, piece.k0 + row, kv_head);
  return math::exp(static_cast<const R*>(call.log_decay.data)[at + (call.decay == Decay::channel ? channel : 0)]);
}

}  // namespace fovea::scan::cuda
