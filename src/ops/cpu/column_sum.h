#pragma once

#include <span>

#include "ops/column_sum_kernels.h"
#include "ops/spans.h"

namespace fovea::cpu {

// sums (width) += rows [begin, end) of x (rows, width), or of x * y where y is defined. Dense; sums in the wide type.
void add_columns(const kernels::ColumnSum& io, std::int64_t begin, std::int64_t end, void* sums);

// sums (width) += the listed rows of x (rows, width).
void add_listed(const Tensor& x, std::span<const std::int64_t> rows, void* sums);

// partial (blocks, width) -> (width), in order.
Tensor fold_blocks(const Context& context, const Tensor& partial);
// The sum of each stretch of x (batch n, width): (stretches, width), in the wide type.
Tensor stretch_sums(const Context& context, const Tensor& x, const Stretches& stretches);

}  // namespace fovea::cpu
