#pragma once

#include <string>

#include "io/fields.h"

namespace fovea::python {

// Settings that were given to the function `origin` as named arguments; errors say them so that _errors.py can, too.
template <class T>
void read_arguments(T& settings, const std::string& json, const std::string& origin) {
  T changed = settings;
  fields_detail::read(&changed, fields_detail::visit_of<T>, parse_json(json, origin), origin, ErrorCode::usage);
  settings = std::move(changed);
}

}  // namespace fovea::python
