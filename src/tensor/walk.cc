#include "tensor/walk.h"

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

void Walk::advance(Cursor& cursor) const {
  for (int i = outer_ - 1; i >= 0; --i) {
    const auto k = static_cast<std::size_t>(i);
    cursor.to += axes_[k].to;
    cursor.from += axes_[k].from;
    if (++cursor.index[k] < axes_[k].size) return;
    cursor.to -= cursor.index[k] * axes_[k].to;
    cursor.from -= cursor.index[k] * axes_[k].from;
    cursor.index[k] = 0;
  }
}

}  // namespace fovea
