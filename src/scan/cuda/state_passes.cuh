#pragma once

#include "core/cuda/memory.h"
#include "scan/cuda/schedule.h"
#include "scan/cuda/states.cuh"

namespace fovea::scan::cuda {

// Scratch of a call, in elements.
template <class R>
class RoomOf {
 public:
  RoomOf(const Launch& launch, std::int64_t count) : scratch_(launch, static_cast<std::size_t>(count) * sizeof(R)) {}
  R* data() const { return static_cast<R*>(scratch_.data()); }

 private:
  DeviceScratch scratch_;
};

// What happens to states between the passes over rows.
template <class R>
class StatePasses {
 public:
  using Room = RoomOf<R>;

  StatePasses(const Launch& launch, const Call& call, const Schedule& schedule)
      : launch_(launch), call_(call), schedule_(schedule) {}

  Room room(std::int64_t count) const { return Room(launch_, count); }
  std::int64_t pieces() const { return static_cast<std::int64_t>(schedule_.host_pieces.size()); }
  std::int64_t states(std::int64_t heads) const { return pieces() * heads * call_.state_size(); }
  std::int64_t segment_states(const Cuts& cuts, std::int64_t heads) const {
    return cuts.count * heads * call_.state_size();
  }

  dim3 state_grid(std::int32_t heads) const {
    return dim3(static_cast<unsigned>(pieces()),
                static_cast<unsigned>((call_.state_size() + kStateThreads - 1) / kStateThreads),
                static_cast<unsigned>(heads));
  }

  // What every segment starts with, in place of its own sum.
  void carry(R* sums, std::int32_t heads, const void* outside, bool back) {
    const bool fades = call_.decay != Decay::none;
    const std::int32_t columns = call_.decay == Decay::channel ? call_.d_k : 1;
    const Room factors(launch_, fades ? std::int64_t{schedule_.segments.count} * call_.kv_heads * columns : 0);
    if (fades) {
      const int side = Columns::in_block(columns);
      const dim3 grid(static_cast<unsigned>(schedule_.segments.count), static_cast<unsigned>(call_.kv_heads),
                      static_cast<unsigned>((columns + side - 1) / side));
      segment_decay_kernel<R>
          <<<grid, kStateThreads, 0, launch_.stream>>>(call_, schedule_.segments.data, factors.data());
    }
    carry_kernel<R><<<state_grid(heads), kStateThreads, 0, launch_.stream>>>(call_, sums, factors.data(),
                                                                             static_cast<const R*>(outside), back);
    check_cuda(cudaGetLastError(), "states of linear attention");
  }
  void total(const Totals<R>& totals) {
    total_kernel<R><<<state_grid(call_.kv_heads), kStateThreads, 0, launch_.stream>>>(call_, totals);
    check_cuda(cudaGetLastError(), "states of linear attention");
  }

 protected:
  const Launch& launch_;
  Call call_;
  const Schedule& schedule_;
};

}  // namespace fovea::scan::cuda
