#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "io/json_fwd.h"

namespace fovea {

// Parses text from outside. Refuses, as bad_input with line and column: anything that is not JSON, nesting deeper than
// kJsonDepth, and a key given twice. `where` names the file.
inline constexpr int kJsonDepth = 32;
Json parse_json(std::string_view text, const std::string& where);

// The same with keys sorted: for objects of very many keys, which the ordered one takes quadratic time to read.
using JsonMap = nlohmann::json;
JsonMap parse_json_map(std::string_view text, const std::string& where);

// Indented by two spaces, ending in a newline.
std::string json_text(const Json& json);

// "number", "string", ...: how errors speak of a value.
std::string_view json_kind(Json::value_t kind);
inline std::string_view json_kind(const Json& json) { return json_kind(json.type()); }

}  // namespace fovea
