#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <string_view>

#include "fovea/export.h"

namespace fovea {

// Where the time of a step goes. Zones of one thread do not nest: the innermost is the one that counts.
enum class Zone : std::uint8_t { attention, gemm, elementwise, data, optimizer, other };
inline constexpr int kZones = 6;
FOVEA_EXPORT std::string_view name_of(Zone zone);

// Nanoseconds spent in each zone.
class FOVEA_EXPORT ZoneTimes {
 public:
  void add(Zone zone, std::int64_t nanoseconds) {
    ns_[static_cast<std::size_t>(zone)].fetch_add(nanoseconds, std::memory_order_relaxed);
  }
  double seconds(Zone zone) const { return 1e-9 * static_cast<double>(ns_[static_cast<std::size_t>(zone)].load()); }
  void reset() {
    for (auto& ns : ns_) ns.store(0);
  }

 private:
  std::array<std::atomic<std::int64_t>, kZones> ns_{};
};

// Adds its own lifetime to a zone and takes the same time away from the enclosing zone of this thread.
class FOVEA_EXPORT ZoneTimer {
 public:
  ZoneTimer(ZoneTimes& times, Zone zone);
  ~ZoneTimer();
  ZoneTimer(const ZoneTimer&) = delete;
  ZoneTimer& operator=(const ZoneTimer&) = delete;

 private:
  ZoneTimes* times_;
  Zone zone_;
  std::chrono::steady_clock::time_point start_;
  std::int64_t inner_ns_ = 0;  // time of the zones inside this one
  ZoneTimer* outer_;
};

}  // namespace fovea
