#include "core/cuda/card_memory.h"
#include "inspect/card_map.h"
#include "inspect/cuda/map_sums.h"
#include "tensor/array_of.h"

namespace fovea::inspection::kernels {
namespace {

// Calls use(map) with the arrays of rows that are to be made.
template <class Use>
void with_map(const ScoredRows& rows, const Use& use) {
  const tile::Problem problem = tile::problem_of(rows.work, rows.in);
  use(cuda::CardMap{problem, array_of<In>(rows.in.q), array_of<In>(rows.in.k), rows.recipe});
}

}  // namespace

template <>
void sum_map<Device::cuda>(const Context& context, const ScoredRows& rows, const MapSpec& spec, MapSums& sums) {
  with_map(rows, [&](const cuda::CardMap& map) { sums = cuda::sum_map(device::launch_of(context), map, spec); });
}

template <>
void cut_rectangle<Device::cuda>(const Context& context, const ScoredRows& rows, const MapShape& shape,
                                 MapRectangle& rectangle) {
  with_map(rows, [&](const cuda::CardMap& map) {
    rectangle.weights = cuda::rectangle(device::launch_of(context), map, shape, rectangle.at);
  });
}

}  // namespace fovea::inspection::kernels
