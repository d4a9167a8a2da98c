#pragma once

#include "scan/cuda/elements.cuh"
#include "scan/cuda/schedule.h"

// The portable form of every pass over rows: one row after the other, each block with a part of the state in registers.
//
//   T = decay T + x_t y_t^T,   out_t = T^T r_t
//
// The state (d_k, width) is T or its transpose, whichever way the sum of `out` runs. Exact for every kind of decay, as
// each is only ever a factor; nothing of the future is touched.
namespace fovea::scan::cuda {

inline constexpr int kTile = 64, kWalkThreads = 256;

// States of pieces or of cuts, for some heads each: (d_k, width), dense.
template <class Pointer>
struct States {
  Pointer data = nullptr;  // null: zero, or not wanted
  bool by_cut = false;
  bool of_first = false;  // one for every kv head, which belongs to the first of its query heads alone

  template <class R>
  FOVEA_HD auto cast() const {
    if constexpr (std::is_const_v<std::remove_pointer_t<Pointer>>)
      return static_cast<const R*>(data);
    else
      return static_cast<R*>(data);
  }
};

enum class Step : std::uint8_t { sum, scan, back, read };  // update; update and read; from the right; read alone

struct Walk {
  Cuts cuts;
  Step step = Step::sum;
  bool back = false;  // Step::sum from the right to the left
  Source x = Source::keys, y = Source::values, r = Source::queries;
  bool by_kv_head = false;       // one walk for each kv head, else for each query head
  bool state_by_kv_head = true;  // the same of the states
  States<const void*> start = {};
  States<void*> end = {};
  void* out = nullptr;  // [x tiles][rows of r][heads][columns of y]
};

void run_walk(const Launch& launch, const Call& call, const Walk& walk);

}  // namespace fovea::scan::cuda
