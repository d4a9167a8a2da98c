#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

#include "core/parallel.h"
#include "fovea/tensor.h"

namespace fovea {

// Elements that lie evenly spaced in two tensors: offsets and steps in elements.
struct Stretch {
  std::int64_t to, from, count, to_step, from_step;

  bool dense() const { return to_step == 1 && from_step == 1; }
};

// The elements of two tensors of one shape, side by side, in an order that suits memory: axes are sorted by the strides
// of `to` and merged where both tensors allow it; where the two disagree about the innermost axis (a transpose), the
// pair of axes is walked in tiles that fit in L1.
class Walk {
 public:
  Walk(const Tensor& to, const Tensor& from);

  // Calls body(stretch) for stretches that cover every element once, on up to `threads` threads.
  template <class Body>
  void run(int threads, Body&& body) const;

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
  void advance(Cursor& cursor) const;

  template <class Body>
  void rows(std::int64_t begin, std::int64_t end, const Body& body) const;
  template <class Body>
  void tiles(const Cursor& at, const Body& body) const;

  bool empty_ = false;
  int outer_ = 0;                           // axes before the innermost one or two
  std::array<Axis, Shape::kMaxRank> axes_;  // of the outer rows
  std::int64_t rows_ = 1;                   // their product
  Axis across_, along_;                     // across_ has size 1 unless the walk is tiled
};

template <class Body>
void Walk::run(int threads, Body&& body) const {
  if (empty_) return;
  const std::int64_t row = across_.size * along_.size;
  const std::int64_t grain = std::max<std::int64_t>(1, kTask / row), tasks = (rows_ + grain - 1) / grain;
  // One long row (a dense tensor) is cut; many are dealt out.
  const std::int64_t cuts = across_.size == 1 && tasks < 2 * threads ? (along_.size + kTask - 1) / kTask : 1;
  const std::int64_t length = (along_.size + cuts - 1) / cuts;
  const auto task = [&](std::int64_t i) {
    if (cuts == 1) return rows(i * grain, std::min(rows_, (i + 1) * grain), body);
    const Cursor at = seek(i / cuts);
    const std::int64_t begin = i % cuts * length, count = std::min(length, along_.size - begin);
    if (count > 0)
      body(Stretch{at.to + begin * along_.to, at.from + begin * along_.from, count, along_.to, along_.from});
  };
  const std::int64_t count = cuts == 1 ? tasks : rows_ * cuts;
  const int team = static_cast<int>(std::min<std::int64_t>(threads, count));
  if (team <= 1) {
    for (std::int64_t i = 0; i < count; ++i) task(i);
    return;
  }
  parallel(team, [&](const Team& t) {
    for (std::int64_t i = t.take(); i < count; i = t.take()) task(i);
  });
}

template <class Body>
void Walk::rows(std::int64_t begin, std::int64_t end, const Body& body) const {
  Cursor at = seek(begin);
  for (std::int64_t row = begin; row < end; ++row, advance(at)) {
    if (across_.size > 1)
      tiles(at, body);
    else
      body(Stretch{at.to, at.from, along_.size, along_.to, along_.from});
  }
}

template <class Body>
void Walk::tiles(const Cursor& at, const Body& body) const {
  for (std::int64_t a = 0; a < across_.size; a += kTile)
    for (std::int64_t b = 0; b < along_.size; b += kTile) {
      const std::int64_t stop = std::min(across_.size, a + kTile), count = std::min(kTile, along_.size - b);
      for (std::int64_t i = a; i < stop; ++i)
        body(Stretch{at.to + i * across_.to + b * along_.to, at.from + i * across_.from + b * along_.from, count,
                     along_.to, along_.from});
    }
}

}  // namespace fovea
