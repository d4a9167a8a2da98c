#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "io/json.h"

namespace fovea::text {

// The string under this name, empty where there is none: for a look at a component before it is read and checked.
std::string text_at(const JsonMap& json, const char* name);

// One component of a tokeniser's file. What it holds is read by name; what nobody asked for is refused, so that a
// setting we do not know never changes the ids in silence.
class Settings {
 public:
  Settings(const JsonMap& json, std::string where);

  const std::string& where() const { return where_; }

  const JsonMap* find(const char* name);  // null: absent, or the value null
  const JsonMap& need(const char* name);
  void ignore(std::initializer_list<const char*> names);  // settings that change nothing here

  std::string text(const char* name, const std::string& fallback);
  std::string need_text(const char* name);
  std::optional<std::string> maybe_text(const char* name);
  bool flag(const char* name, bool fallback);
  std::optional<bool> maybe_flag(const char* name);
  std::int64_t number(const char* name, std::int64_t fallback);
  char32_t character(const char* name, char32_t fallback);

  Settings inside(const char* name);             // an object that must be there
  std::vector<Settings> list(const char* name);  // of objects

  void finish() const;  // refuses what nobody asked for

  // A wrong value of this component.
  [[noreturn]] void refuse(const std::string& what, const char* name = "", const std::string& hint = {}) const;
  // A type that is not one of ours.
  [[noreturn]] void refuse_type(const std::string& type, std::initializer_list<std::string_view> known) const;

 private:
  std::string place(const char* name) const;

  const JsonMap* json_;
  std::string where_;
  std::vector<std::string> asked_;
};

}  // namespace fovea::text
