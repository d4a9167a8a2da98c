#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "io/field_visitor.h"
#include "io/file.h"
#include "io/json.h"

// Settings structs (io/field_visitor.h) read from and written to JSON, changed by `--set a.b=c`, and described.
namespace fovea {

// Every key must name a field; fields without a key keep their value. `origin` names the file in errors.
template <class T>
void read_fields(T& settings, const Json& json, const std::string& origin);

template <class T>
Json write_fields(const T& settings);

// Applies "a.b=c", "layers[1].attention=norm", ... as given on a command line; checked when all are applied, so that
// two settings that only fit together can be changed one after the other.
template <class T>
void set_fields(T& settings, std::span<const std::string> assignments);

// One line per field: path, value, meaning, what is allowed; the choices where there are some, of true and false, too.
struct FieldHelp {
  std::string path, value, help, allowed;
  std::vector<std::string> choices = {};
};
// Every field there can be: what is empty as if it were not, and one element for all of a list ("layers[i]").
template <class T>
std::vector<FieldHelp> describe_fields(const T& settings);
// What the settings hold, in the words of --set: a list as one value, "none" for what is empty.
template <class T>
std::vector<FieldHelp> list_fields(const T& settings);

template <class T>
T load_fields(const Path& path, T settings = {}) {
  constexpr std::size_t kCap = 16 << 20;
  read_fields(settings, parse_json(read_file(path, kCap), path.string()), path.string());
  return settings;
}

namespace fields_detail {

using Visit = void (*)(void* settings, FieldVisitor& visitor);

void read(void* settings, Visit visit, const Json& json, const std::string& origin, ErrorCode code);
Json write(void* settings, Visit visit);
enum class Described : std::uint8_t { all, as_it_is };
std::vector<FieldHelp> describe(void* settings, Visit visit, Described what);
void assign(Json& json, std::string_view assignment);  // replaces one value by the assigned text

template <class T>
constexpr Visit visit_of =
    [](void* settings, FieldVisitor& visitor) { visitor.visit(Field{}, *static_cast<T*>(settings)); };

}  // namespace fields_detail

template <class T>
void read_fields(T& settings, const Json& json, const std::string& origin) {
  T changed = settings;  // a refused file changes nothing
  fields_detail::read(&changed, fields_detail::visit_of<T>, json, origin, ErrorCode::bad_input);
  settings = std::move(changed);
}

template <class T>
Json write_fields(const T& settings) {
  T copy = settings;
  return fields_detail::write(&copy, fields_detail::visit_of<T>);
}

template <class T>
void set_fields(T& settings, std::span<const std::string> assignments) {
  Json json = write_fields(settings);
  for (const std::string& assignment : assignments) fields_detail::assign(json, assignment);
  T changed = settings;
  fields_detail::read(&changed, fields_detail::visit_of<T>, json, "--set", ErrorCode::usage);
  settings = std::move(changed);
}

template <class T>
std::vector<FieldHelp> describe_fields(const T& settings) {
  T copy = settings;
  return fields_detail::describe(&copy, fields_detail::visit_of<T>, fields_detail::Described::all);
}

template <class T>
std::vector<FieldHelp> list_fields(const T& settings) {
  T copy = settings;
  return fields_detail::describe(&copy, fields_detail::visit_of<T>, fields_detail::Described::as_it_is);
}

}  // namespace fovea
