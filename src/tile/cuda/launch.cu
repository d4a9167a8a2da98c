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

// Each as a problem of one row: their keys lie apart.
template <>
void attend_queries<Device::cuda>(const Context& context, const Queries& all) {
  for (const Query& query : all.queries) {
    const auto plan = plan_for(Device::cuda, Pattern::full(), 1, query.n);
    const Piece piece{.nq = 1, .nk = query.n, .plan = plan.get()};
    Problem problem;
    problem.dtype = all.dtype;
    problem.heads = all.heads;
    problem.kv_heads = all.kv_heads;
    problem.d_k = all.d_k;
    problem.d_v = all.d_v;
    problem.pieces = {&piece, 1};
    problem.scale = all.scale;
    cuda::forward(device::launch_of(context), problem, {query.q, query.keys, query.values, query.o, {}});
  }
}

}  // namespace fovea::tile
