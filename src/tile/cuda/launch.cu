#include "core/cuda/card_memory.h"
#include "fovea/pattern.h"
#include "tile/cuda/launch.h"
#include "tile/query.h"

namespace fovea::tile {

template <>
void forward<Device::cuda>(const Context& context, const Problem& problem, const Forward& io) {
  cuda::forward(device::launch_of(context), problem, io);
}

template <>
void backward<Device::cuda>(const Context& context, const Problem& problem, const Backward& io) {
  cuda::backward(device::launch_of(context), problem, io);
}

template <>
void rule_forward<Device::cuda>(const Context& context, const Problem& problem, const RowRule& rule,
                                const Forward& io) {
  cuda::rule_forward(device::launch_of(context), problem, rule, io);
}

template <>
void rule_backward<Device::cuda>(const Context& context, const Problem& problem, const RowRule& rule,
                                 const Backward& io) {
  cuda::rule_backward(device::launch_of(context), problem, rule, io);
}

template <>
TileSize tile_size_for<Device::cuda>(const Pattern&, std::int64_t, std::int64_t) {
  return cuda::kTile;
}

// As a problem of one row.
template <>
void attend_query<Device::cuda>(const Context& context, const Query& query) {
  const auto plan = plan_for(Device::cuda, Pattern::full(), 1, query.n);
  const Piece piece{.nq = 1, .nk = query.n, .plan = plan.get()};
  Problem problem;
  problem.dtype = query.dtype;
  problem.heads = query.heads;
  problem.kv_heads = query.kv_heads;
  problem.d_k = query.d_k;
  problem.d_v = query.d_v;
  problem.pieces = {&piece, 1};
  problem.scale = query.scale;
  cuda::forward(device::launch_of(context), problem,
                {{query.q, 0, 0, query.d_k}, query.keys, query.values, {query.o, 0, 0, query.d_v}, {}});
}

}  // namespace fovea::tile
