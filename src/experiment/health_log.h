#pragma once

#include <set>

#include "inspect/gradient_health.h"
#include "io/csv.h"

namespace fovea {

inline constexpr const char* kHealthFile = "health.csv";

// Writes what was found at each look into the folder of a run: a row for each part and for each attention layer.
class HealthLog final : public TrainObserver {
 public:
  // `health` is an observer of the same run, added before.
  HealthLog(const Path& folder, const GradientHealth& health) : folder_(folder), health_(health) {}

  void on_step(const StepReport& report) override;

 private:
  Path folder_;
  const GradientHealth& health_;
  std::optional<CsvLog> csv_;
};

}  // namespace fovea
