#pragma once

#include "tile/cuda/bias_gradient.h"
#include "tile/cuda/schedule.h"
#include "tile/cuda/view.h"

// The portable kernels behind plain functions: one table for each kind of weight and accumulation type.
namespace fovea::tile::cuda {

enum class Role : std::uint8_t { forward, row, column };
enum class Family : std::uint8_t { shares, points, rules };

struct SimtKernels {
  // Own tiles of `group` blocks.
  void (*run)(const Launch& launch, const Call& call, const Schedule& schedule, Role role, int group);
  void (*add_bias)(const Launch& launch, const Call& call, const Schedule& schedule);
};
const SimtKernels& simt_kernels(Family family, bool is_f64);

// Finds the terms of every row; call.d_o is null in forward.
template <class R>
void search_rows(const Launch& launch, const Call& call, const Schedule& schedule, RowTerms<R>* terms);

void write_score_rows(const Launch& launch, const Call& call, const Schedule& schedule, const ScoreRows& rows);

}  // namespace fovea::tile::cuda
