#pragma once

#include "mechanisms/kind.h"
#include "scan/contract.h"

namespace fovea {

// What a mechanism asks of the scan engine, besides the options of the call.
struct Scanned {
  scan::Map map = scan::Map::identity;
  scan::Denominator denominator = scan::Denominator::none;
  double denominator_eps = 0.0;
  bool rms_norm = false;
  double norm_eps = 0.0;
  std::vector<float> log_decay = {};  // per kv head; empty: none
};

// Runs the call on the scan engine and records it. With rotary positions the feature map runs first, as an operation of
// its own, because the rotation comes between it and the scan.
AttentionResult run_scanned(const Call& call, const Scanned& scanned);

}  // namespace fovea
