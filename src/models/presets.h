#pragma once

#include <string_view>

namespace fovea {

// What a preset of ModelConfig is for, in a few words; empty: there is none of this name.
std::string_view preset_summary(std::string_view name);

bool is_preset(std::string_view name);  // of ModelConfig::preset_names()

}  // namespace fovea
