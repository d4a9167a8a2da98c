#include "text/settings.h"

#include <algorithm>

#include "core/nearest.h"
#include "fovea/error.h"
#include "text/utf8.h"

namespace fovea::text {
namespace {

std::string kind_text(const JsonMap& value) { return std::string(json_kind(static_cast<Json::value_t>(value.type()))); }

}  // namespace

std::string text_at(const JsonMap& json, const char* name) {
  const auto found = json.is_object() ? json.find(name) : json.end();
  return found != json.end() && found->is_string() ? found->get<std::string>() : std::string();
}

Settings::Settings(const JsonMap& json, std::string where) : json_(&json), where_(std::move(where)) {
  if (!json.is_object()) fail(ErrorCode::bad_input, "expected an object, got " + kind_text(json), where_);
}

std::string Settings::place(const char* name) const { return *name == '\0' ? where_ : where_ + "." + name; }

void Settings::refuse(const std::string& what, const char* name, const std::string& hint) const {
  fail(ErrorCode::bad_input, what, place(name), hint);
}

void Settings::refuse_type(const std::string& type, std::initializer_list<std::string_view> known) const {
  const std::vector<std::string_view> names(known);
  fail(ErrorCode::unsupported, "unknown type \"" + type + "\"", where_, name_hint(type, names));
}

const JsonMap* Settings::find(const char* name) {
  asked_.emplace_back(name);
  const auto found = json_->find(name);
  return found == json_->end() || found->is_null() ? nullptr : &*found;
}

const JsonMap& Settings::need(const char* name) {
  const JsonMap* found = find(name);
  if (found == nullptr) refuse(std::string("\"") + name + "\" is missing");
  return *found;
}

void Settings::ignore(std::initializer_list<const char*> names) {
  asked_.insert(asked_.end(), names.begin(), names.end());
}

std::optional<std::string> Settings::maybe_text(const char* name) {
  const JsonMap* found = find(name);
  if (found == nullptr) return std::nullopt;
  if (!found->is_string()) refuse("expected a string, got " + kind_text(*found), name);
  return found->get<std::string>();
}

std::string Settings::text(const char* name, const std::string& fallback) {
  return maybe_text(name).value_or(fallback);
}

std::string Settings::need_text(const char* name) {
  need(name);
  return *maybe_text(name);
}

std::optional<bool> Settings::maybe_flag(const char* name) {
  const JsonMap* found = find(name);
  if (found == nullptr) return std::nullopt;
  if (!found->is_boolean()) refuse("expected true or false, got " + kind_text(*found), name);
  return found->get<bool>();
}

bool Settings::flag(const char* name, bool fallback) { return maybe_flag(name).value_or(fallback); }

std::int64_t Settings::number(const char* name, std::int64_t fallback) {
  const JsonMap* found = find(name);
  if (found == nullptr) return fallback;
  constexpr std::int64_t kMost = std::int64_t{1} << 31;
  const bool fits =
      found->is_number_integer() && found->get<double>() >= 0 && found->get<double>() < static_cast<double>(kMost);
  if (!fits) refuse("expected a whole number from 0 to 2147483647", name);
  return found->get<std::int64_t>();
}

char32_t Settings::character(const char* name, char32_t fallback) {
  const std::optional<std::string> found = maybe_text(name);
  if (!found) return fallback;
  if (found->empty() || decode(*found, 0).size != found->size()) refuse("expected one character", name);
  return decode(*found, 0).code;
}

Settings Settings::inside(const char* name) { return {need(name), place(name)}; }

std::vector<Settings> Settings::list(const char* name) {
  const JsonMap& found = need(name);
  if (!found.is_array()) refuse("expected a list, got " + kind_text(found), name);
  std::vector<Settings> all;
  for (const JsonMap& element : found) all.emplace_back(element, place(name) + "[" + std::to_string(all.size()) + "]");
  return all;
}

void Settings::finish() const {
  for (const auto& [key, value] : json_->items()) {
    if (std::find(asked_.begin(), asked_.end(), key) != asked_.end()) continue;
    const std::vector<std::string_view> names(asked_.begin(), asked_.end());
    fail(ErrorCode::unsupported, "unknown setting \"" + key + "\"", where_, name_hint(key, names));
  }
}

}  // namespace fovea::text
