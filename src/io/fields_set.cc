#include <charconv>

#include "core/nearest.h"
#include "io/fields.h"

namespace fovea {
namespace {

[[noreturn]] void refuse_path(std::string_view path, const std::string& what, std::string hint) {
  fail(ErrorCode::usage, what, "--set " + std::string(path), std::move(hint));
}

Json& member(Json& json, std::string_view name, std::string_view path) {
  if (!json.is_object())
    refuse_path(path, "nothing called \"" + std::string(name) + "\" inside " + std::string(json_kind(json)), {});
  const auto found = json.find(name);
  if (found != json.end()) return *found;
  std::vector<std::string_view> names;
  for (const auto& item : json.items()) names.push_back(item.key());
  refuse_path(path, "unknown key \"" + std::string(name) + "\"", name_hint(name, names));
}

Json& element(Json& json, std::string_view digits, std::string_view path) {
  std::size_t index = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), index);
  if (error != std::errc() || end != digits.data() + digits.size())
    refuse_path(path, "expected a number between [ and ], got \"" + std::string(digits) + "\"", "layers[0].attention");
  if (!json.is_array() || index >= json.size())
    refuse_path(path, "there is no element " + std::string(digits),
                "it has " + std::to_string(json.is_array() ? json.size() : 0));
  return json[index];
}

// Follows "a.b[1].c" down into the settings.
Json& follow(Json& root, std::string_view path) {
  Json* json = &root;
  std::string_view rest = path;
  while (!rest.empty()) {
    if (rest.front() == '[') {
      const std::size_t close = rest.find(']');
      if (close == std::string_view::npos) refuse_path(path, "a [ without its ]", {});
      json = &element(*json, rest.substr(1, close - 1), path);
      rest.remove_prefix(close + 1);
    } else {
      const std::size_t end = std::min(rest.find_first_of(".["), rest.size());
      json = &member(*json, rest.substr(0, end), path);
      rest.remove_prefix(end);
    }
    if (rest.starts_with('.')) rest.remove_prefix(1);
  }
  return *json;
}

Json json_or_string(std::string_view text) {
  try {
    return parse_json(text, "--set");
  } catch (const Error&) {
    return Json(text);
  }
}

// The text as the kind of value it replaces. "64,128" is a list where a list is wanted.
Json converted(const Json& old, std::string_view text) {
  if (old.is_string() && !text.starts_with('"')) return Json(text);
  if (!old.is_array() || text.starts_with('[')) return json_or_string(text);
  Json list = Json::array();
  while (!text.empty()) {
    const std::size_t comma = std::min(text.find(','), text.size());
    list.push_back(json_or_string(text.substr(0, comma)));
    text.remove_prefix(std::min(comma + 1, text.size()));
  }
  return list;
}

}  // namespace

void fields_detail::assign(Json& json, std::string_view assignment) {
  const std::size_t equals = assignment.find('=');
  if (equals == std::string_view::npos || equals == 0)
    fail(ErrorCode::usage, "expected NAME=VALUE, got \"" + std::string(assignment) + "\"", "--set",
         "--set train.lr=3e-4");
  Json& value = follow(json, assignment.substr(0, equals));
  value = converted(value, assignment.substr(equals + 1));
}

}  // namespace fovea
