#pragma once

#include <nanobind/nanobind.h>

#include "fovea/data.h"

namespace fovea::python {

namespace nb = nanobind;

// What a model reads, from a dict of what was given: ids int32 (b, n) with lengths where rows are padded, or (1, total)
// with the offsets cu_seqlens of packed sequences; types, like ids; the same with "second_" before the names; pictures
// float32 (b, height, width, channels); targets int32.
Batch batch_from(const Context& context, const nb::dict& given);

}  // namespace fovea::python
