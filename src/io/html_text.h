#pragma once

#include <string>
#include <string_view>

namespace fovea {

// Text for use between tags and inside quoted attributes of HTML and SVG.
std::string escape_html(std::string_view text);

std::string base64(std::string_view bytes);

}  // namespace fovea
