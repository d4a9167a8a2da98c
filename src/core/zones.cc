#include "fovea/zones.h"

namespace fovea {
namespace {

thread_local ZoneTimer* t_innermost = nullptr;

}  // namespace

std::string_view name_of(Zone zone) {
  constexpr std::string_view kNames[kZones] = {"attention", "gemm", "elementwise", "data", "optimizer", "other"};
  return kNames[static_cast<std::size_t>(zone)];
}

ZoneTimer::ZoneTimer(ZoneTimes& times, Zone zone)
    : times_(&times), zone_(zone), start_(std::chrono::steady_clock::now()), outer_(t_innermost) {
  t_innermost = this;
}

ZoneTimer::~ZoneTimer() {
  const std::int64_t whole =
      std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now() - start_).count();
  times_->add(zone_, whole - inner_ns_);
  if (outer_ != nullptr) outer_->inner_ns_ += whole;
  t_innermost = outer_;
}

}  // namespace fovea
