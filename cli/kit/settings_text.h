#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "io/fields.h"

namespace fovea::cli {

// Settings as a table: name, value, meaning; those of one section ("model") below its name.
std::string settings_text(const std::vector<FieldHelp>& settings, std::size_t width);

Json settings_json(const std::vector<FieldHelp>& settings);

// Those whose name or meaning holds the word, whatever its case.
std::vector<FieldHelp> find_settings(const std::vector<FieldHelp>& settings, const std::string& word);

}  // namespace fovea::cli
