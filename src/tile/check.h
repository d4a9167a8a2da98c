#pragma once

#include "tile/contract.h"
#include "tile/row_rule.h"
#include "tile/row_statistics.h"

namespace fovea::tile {

// Refuse what the kernels could not survive: missing arrays, sizes that do not fit, plans made for other lengths.
void check(const Problem& problem);
void check(const Problem& problem, const Forward& io);
void check(const Problem& problem, const Forward& io, const RowStatistics& statistics);
void check(const Problem& problem, const Backward& io);
void check(const Problem& problem, const RowRule& rule, const Forward& io);
void check(const Problem& problem, const RowRule& rule, const Backward& io);

}  // namespace fovea::tile
