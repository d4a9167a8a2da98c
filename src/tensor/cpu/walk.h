#pragma once

#include <array>
#include <cstdint>

#include "fovea/tensor.h"

namespace fovea {

// Lines of elements, evenly spaced in two tensors: offsets and steps in elements.
struct Patch {
  std::int64_t to, from, lines, to_line, from_line, count, to_step, from_step;

  bool dense() const { return to_step == 1 && from_step == 1; }  // each line
};

// What is done to a patch, given where both tensors begin. The walk calls it through a pointer: with a walk of its own
// inlined for each of the 49 pairs of types, copies alone took 13 s to compile and 0.5 MB of code.
using PatchBody = void (*)(void* to, const void* from, const Patch& patch);

// The elements of two tensors of one shape, side by side, in an order that suits memory: axes are sorted by the strides
// of `to` and merged where both tensors allow it; where the two disagree about the innermost axis (a transpose), the
// pair of axes is walked in tiles that fit in L1.
class Walk {
 public:
  Walk(const Tensor& to, const Tensor& from);

  // Calls body(to, from, patch) for patches that cover every element once, on up to `threads` threads.
  void run(int threads, PatchBody body, void* to, const void* from) const;

 private:
  struct Axis {
    std::int64_t size = 1, to = 0, from = 0;
  };
  static constexpr std::int64_t kTask = 1 << 14;  // elements
  static constexpr std::int64_t kTile = 32;

  // Offsets of the outer rows, stepping through them without divisions.
  struct Cursor {
    std::array<std::int64_t, Shape::kMaxRank> index{};
    std::int64_t to = 0, from = 0;
  };
  Cursor seek(std::int64_t row) const;
  void advance(Cursor& cursor, std::int64_t rows) const;  // no further than the end of the last axis

  struct Call {
    PatchBody body;
    void* to;
    const void* from;

    void operator()(const Patch& patch) const { body(to, from, patch); }
  };
  void rows(std::int64_t begin, std::int64_t end, const Call& body) const;
  void tiles(const Cursor& at, const Call& body) const;

  bool empty_ = false;
  int outer_ = 0;                           // axes before the innermost one or two
  std::array<Axis, Shape::kMaxRank> axes_;  // of the outer rows
  std::int64_t rows_ = 1;                   // their product
  Axis across_, along_;                     // across_ has size 1 unless the walk is tiled
};

}  // namespace fovea
