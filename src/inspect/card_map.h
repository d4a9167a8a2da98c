#pragma once

#include <optional>

#include "fovea/inspect.h"
#include "inspect/map_sums.h"

// Maps that are made and measured where they are: on a card, by kernels.
namespace fovea::inspection {

// Nothing: rows of this source are for the host to take, one by one.
std::optional<MapSums> card_sums(const Context& card, const MapSource& source, const MapSpec& spec);
std::optional<MapRectangle> card_rectangle(const Context& card, const MapSource& source, const MapShape& shape,
                                           const MapRequest& request);

namespace kernels {

template <Device>
void sum_map(const Context& context, const ScoredRows& rows, const MapSpec& spec, MapSums& sums);
template <Device>
void cut_rectangle(const Context& context, const ScoredRows& rows, const MapShape& shape, MapRectangle& rectangle);

}  // namespace kernels
}  // namespace fovea::inspection
