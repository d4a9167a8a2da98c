#include "core/wide.h"
#include "ops/cuda/packs.cuh"
#include "ops/experts_kernels.h"

namespace fovea {
namespace {

using namespace device;  // NOLINT

template <class R>
void scatter(const Context& context, const kernels::Scatter& io) {
  const std::int64_t width = io.values.dim(1);
  const Elements<R> values = elements<R>(io.values), y = elements<R>(io.y);
  const R* const scale = pointer<R>(io.scale);
  const std::int32_t* const index = pointer<std::int32_t>(io.index);
  each_pack(context, {io.values.dim(0), width}, has_packs(io.values, 1) && has_packs(io.y, 1),
            [=] __device__(auto neighbours, std::int64_t i, std::int64_t column) {
              R value[decltype(neighbours)::count];
              if (index[i] < 0) return;
              load(values, i * width + column, value);
              for (R& v : value) v *= scale == nullptr ? R(1) : scale[i];
              store(y, index[i] * width + column, value);
            });
}

// d_values and d_scale of each row.
template <class R>
struct VjpScattered {
  Elements<R> g, values, d_values;  // d_values: undefined where it is not wanted
  const std::int32_t* index;
  const R* scale;
  R* d_scale;
  std::int64_t width;
  bool packs;

  template <class G>
  __device__ void operator()(const G& group) const {
    R dot = packs ? vjp<kPack>(group) : vjp<1>(group);
    if (d_scale == nullptr) return;
    dot = group.sum(dot);
    if (group.lane == 0) d_scale[group.row] = dot;
  }

  template <int kCount, class G>
  __device__ R vjp(const G& group) const {
    const std::int64_t from = index[group.row];
    const R factor = scale == nullptr ? R(1) : scale[group.row];
    R dot = 0;
    for (std::int64_t c = group.lane * kCount; c < width; c += group.lanes * kCount) {
      R upstream[kCount] = {}, value[kCount];
      if (from >= 0) load(g, from * width + c, upstream);
      if (d_scale != nullptr && from >= 0) {
        load(values, group.row * width + c, value);
        for (int k = 0; k < kCount; ++k) dot += upstream[k] * value[k];
      }
      for (R& p : upstream) p *= factor;
      if (d_values.defined()) store(d_values, group.row * width + c, upstream);
    }
    return dot;
  }
};

}  // namespace

template <>
void kernels::scatter_rows<Device::cuda>(const Context& context, const Scatter& io) {
  visit_wide(io.values.dtype(), [&]<class R>() { scatter<R>(context, io); });
}

template <>
void kernels::scatter_rows_backward<Device::cuda>(const Context& context, const ScatterVjp& io) {
  const std::int64_t width = io.g.dim(1);
  const bool packs = width % kPack == 0 && has_packs(io.g, 1) && has_packs(io.values, 1) && has_packs(io.d_values, 1);
  visit_wide(io.g.dtype(), [&]<class R>() {
    rows(context, io.values.dim(0), width,
         VjpScattered<R>{elements<R>(io.g), elements<R>(io.values), elements<R>(io.d_values),
                         pointer<std::int32_t>(io.index), pointer<R>(io.scale), pointer<R>(io.d_scale), width, packs});
  });
}

}  // namespace fovea
