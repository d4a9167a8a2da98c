#include "tensor/cpu/walk.h"

#include <algorithm>

#include "core/parallel.h"

namespace fovea {

Walk::Walk(const Tensor& to, const Tensor& from) : empty_(to.numel() == 0) {
  if (empty_) return;
  std::array<Axis, Shape::kMaxRank> axes;
  int count = 0;
  for (int i = 0; i < to.rank(); ++i)
    if (to.dim(i) != 1) axes[static_cast<std::size_t>(count++)] = {to.dim(i), to.stride(i), from.stride(i)};
  std::stable_sort(axes.begin(), axes.begin() + count, [](const Axis& a, const Axis& b) { return a.to > b.to; });
  int kept = 0;
  for (int i = 0; i < count; ++i) {
    const Axis axis = axes[static_cast<std::size_t>(i)];
    Axis* last = kept > 0 ? &axes[static_cast<std::size_t>(kept - 1)] : nullptr;
    if (last != nullptr && last->to == axis.size * axis.to && last->from == axis.size * axis.from)
      *last = {last->size * axis.size, axis.to, axis.from};
    else
      axes[static_cast<std::size_t>(kept++)] = axis;
  }
  if (kept > 0) along_ = axes[static_cast<std::size_t>(--kept)];
  const auto dense_in_from = [](const Axis& axis) { return axis.from == 1; };
  const auto end = axes.begin() + kept, found = std::find_if(axes.begin(), end, dense_in_from);
  if (along_.from > 1 && found != end) {
    across_ = *found;
    std::copy(found + 1, end, found);
    --kept;
  }
  axes_ = axes;
  outer_ = kept;
  for (int i = 0; i < outer_; ++i) rows_ *= axes_[static_cast<std::size_t>(i)].size;
}

Walk::Cursor Walk::seek(std::int64_t row) const {
  Cursor cursor;
  for (int i = outer_ - 1; i >= 0; --i) {
    const auto k = static_cast<std::size_t>(i);
    cursor.index[k] = row % axes_[k].size;
    row /= axes_[k].size;
    cursor.to += cursor.index[k] * axes_[k].to;
    cursor.from += cursor.index[k] * axes_[k].from;
  }
  return cursor;
}

void Walk::advance(Cursor& cursor, std::int64_t rows) const {
  for (int i = outer_ - 1; i >= 0; --i, rows = 1) {
    const auto k = static_cast<std::size_t>(i);
    cursor.to += rows * axes_[k].to;
    cursor.from += rows * axes_[k].from;
    cursor.index[k] += rows;
    if (cursor.index[k] < axes_[k].size) return;
    cursor.to -= cursor.index[k] * axes_[k].to;
    cursor.from -= cursor.index[k] * axes_[k].from;
    cursor.index[k] = 0;
  }
}

void Walk::run(int threads, PatchBody patch_body, void* to, const void* from) const {
  if (empty_) return;
  const Call body{patch_body, to, from};
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
      body({at.to + begin * along_.to, at.from + begin * along_.from, 1, 0, 0, count, along_.to, along_.from});
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

void Walk::rows(std::int64_t begin, std::int64_t end, const Call& body) const {
  const auto k = static_cast<std::size_t>(std::max(outer_ - 1, 0));
  const Axis line = axes_[k];
  Cursor at = seek(begin);
  for (std::int64_t row = begin, lines = 1; row < end; row += lines, advance(at, lines)) {
    if (across_.size > 1) {
      tiles(at, body);
    } else {
      lines = std::min(end - row, line.size - at.index[k]);
      body({at.to, at.from, lines, line.to, line.from, along_.size, along_.to, along_.from});
    }
  }
}

void Walk::tiles(const Cursor& at, const Call& body) const {
  for (std::int64_t a = 0; a < across_.size; a += kTile)
    for (std::int64_t b = 0; b < along_.size; b += kTile)
      body({at.to + a * across_.to + b * along_.to, at.from + a * across_.from + b * along_.from,
            std::min(kTile, across_.size - a), across_.to, across_.from, std::min(kTile, along_.size - b), along_.to,
            along_.from});
}

}  // namespace fovea
