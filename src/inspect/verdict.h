#pragma once

#include "fovea/inspect.h"
#include "inspect/sink.h"

namespace fovea::inspection {

// The numbers a head is told by, from what else its record holds; without those of blocks.
HeadVerdict verdict_of(const MapShape& shape, bool causal, const HeadRecord& record);

// Sets the mass inside blocks of so many tokens, and what distances alone would put there.
void set_blocks(const MapShape& shape, bool causal, HeadRecord& record, double mass);

// The class that fits the numbers.
struct VerdictCase {
  MapShape shape;
  bool has_rows;
};
void classify(HeadVerdict& verdict, const VerdictCase& of);

}  // namespace fovea::inspection
