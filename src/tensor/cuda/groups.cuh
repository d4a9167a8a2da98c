#pragma once

#include "tensor/cuda/elements.cuh"
#include "tensor/cuda/order.h"

namespace fovea::device {

// The places of Groups::order are taken in windows: a target whose places lie in one window is summed there; the others
// leave a part in each of their windows, and the parts are joined in order.
inline constexpr std::int64_t kWindow = 64;

struct GroupView {
  const std::int32_t *order, *target, *begin;
  std::int64_t count, targets, width;

  // Behind the last place of a target in a window.
  __device__ std::int64_t end(std::int64_t t, std::int64_t window) const {
    return begin[t + 1] < (window + 1) * kWindow ? begin[t + 1] : (window + 1) * kWindow;
  }
  __device__ bool is_cut(std::int64_t t) const {
    return begin[t] < begin[t + 1] && begin[t] / kWindow != (begin[t + 1] - 1) / kWindow;
  }
};

// parts (windows, 2, width): of the target that reaches into a window from before it, and of the one that begins in it
// and goes on behind it.
template <class R, class F, class Put>
__global__ void group_windows_kernel(GroupView groups, F f, Put put, R* parts) {
  const std::int64_t window = blockIdx.x, stop = min((window + 1) * kWindow, groups.count);
  for (std::int64_t c = std::int64_t{blockIdx.y} * blockDim.x + threadIdx.x; c < groups.width;
       c += std::int64_t{gridDim.y} * blockDim.x) {
    for (std::int64_t place = window * kWindow; place < stop;) {
      const std::int64_t t = groups.target[place];
      if (t >= groups.targets) break;
      const std::int64_t end = groups.end(t, window);
      const bool is_whole = !groups.is_cut(t), from_before = place > groups.begin[t];
      R sum(0);
      for (; place < end; ++place) sum += f(groups.order[place], c);
      if (is_whole)
        put(t, c, sum);
      else
        parts[(window * 2 + (from_before ? 0 : 1)) * groups.width + c] = sum;
    }
  }
}

template <class R, class F, class Put>
void add_groups(const Context& context, const Groups& groups, std::int64_t width, const F& f, const Put& put) {
  if (groups.targets == 0 || width == 0) return;
  const GroupView view{pointer<std::int32_t>(groups.order),
                       pointer<std::int32_t>(groups.target),
                       pointer<std::int32_t>(groups.begin),
                       groups.count,
                       groups.targets,
                       width};
  const std::int64_t windows = (groups.count + kWindow - 1) / kWindow;
  const Tensor scratch =
      Tensor::empty(context, {windows, 2, width}, sizeof(R) == 8 ? DType::f64 : DType::f32, Lifetime::scratch);
  R* const parts = static_cast<R*>(scratch.raw());
  if (windows > 0) {
    const dim3 grid(static_cast<unsigned>(windows), blocks_for(width) < 64 ? blocks_for(width) : 64);
    const unsigned threads = width >= kThreads ? kThreads : static_cast<unsigned>((width + 31) / 32 * 32);
    group_windows_kernel<R><<<grid, threads, 0, stream_of(context)>>>(view, f, put, parts);
    check_cuda(cudaGetLastError(), "sums of groups");
  }
  // A target that is cut begins in one window, and has the last place of it.
  each(context, windows * width, [=] __device__(std::int64_t i) {
    const std::int64_t first = i / width, c = i % width;
    const std::int64_t t = view.target[min((first + 1) * kWindow, view.count) - 1];
    if (t >= view.targets || !view.is_cut(t) || view.begin[t] / kWindow != first) return;
    const std::int64_t last = (view.begin[t + 1] - 1) / kWindow;
    R sum = parts[(first * 2 + 1) * width + c];
    for (std::int64_t window = first + 1; window <= last; ++window) sum += parts[window * 2 * width + c];
    put(t, c, sum);
  });
}

}  // namespace fovea::device
