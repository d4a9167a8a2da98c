#include "core/guard.h"

namespace {

// In every test program: whoever writes past an array ends it, see core/guard.h.
[[maybe_unused]] const bool guarded = fovea::guard::turn_on();

}  // namespace
