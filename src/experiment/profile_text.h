#pragma once

#include <string>

#include "report/terminal.h"
#include "train/profile.h"

namespace fovea {

// Two tables, of one step: by place, in the order of the model, and by operation, the slowest first.
std::string profile_text(const ProfileReport& report, const Terminal& terminal);

// Every operation at every place; of one step.
std::string profile_csv(const ProfileReport& report);

}  // namespace fovea
