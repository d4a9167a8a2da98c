#include <algorithm>
#include <charconv>
#include <string>
#include <vector>

#include "core/nearest.h"
#include "io/fields.h"

namespace fovea {
namespace {

[[noreturn]] void refuse_path(std::string_view path, const std::string& what, std::string hint) {
  fail(ErrorCode::usage, what, "--set " + std::string(path), std::move(hint));
}

// Every name in the settings with its path: "model.width".
void collect_paths(const Json& json, const std::string& path, std::vector<std::string>& paths) {
  if (!json.is_object()) return;
  for (const auto& item : json.items()) {
    const std::string inner = path.empty() ? item.key() : path + "." + item.key();
    paths.push_back(inner);
    collect_paths(item.value(), inner, paths);
  }
}

std::string_view last_name(std::string_view path) { return path.substr(path.rfind('.') + 1); }

// The path that was most likely meant by one that leads nowhere: with this name in another section ("width" for
// "model.width"), the nearest whole path, or the nearest name in any section. Of several the least deep.
std::string likely_path(const Json& root, std::string_view path) {
  std::vector<std::string> paths;
  collect_paths(root, {}, paths);
  const auto depth = [](const std::string& p) { return std::count(p.begin(), p.end(), '.'); };
  std::stable_sort(paths.begin(), paths.end(), [&](const auto& a, const auto& b) { return depth(a) < depth(b); });
  std::vector<std::string_view> whole, names;
  for (const std::string& known : paths) {
    if (last_name(known) == last_name(path)) return known;
    whole.push_back(known);
    names.push_back(last_name(known));
  }
  if (const std::string_view near = nearest_name(path, whole); !near.empty()) return std::string(near);
  const std::string_view name = nearest_name(last_name(path), names);
  for (const std::string& known : paths)
    if (!name.empty() && last_name(known) == name) return known;
  return {};
}

struct Walk {
  Json& root;
  std::string_view path, value;
};

[[noreturn]] void refuse_name(const Walk& walk, std::string_view name) {
  const std::string likely = likely_path(walk.root, walk.path);
  refuse_path(
      walk.path, "unknown key \"" + std::string(name) + "\"",
      likely.empty() ? "fovea show: every name, with its meaning" : "--set " + likely + "=" + std::string(walk.value));
}

Json& member(const Walk& walk, Json& json, std::string_view name) {
  if (!json.is_object()) {
    const std::string above(walk.path.substr(0, walk.path.size() - name.size() - 1));
    refuse_path(walk.path, "nothing called \"" + std::string(name) + "\" inside " + std::string(json_kind(json)),
                json.is_null() ? "a model that has " + above + ": fovea list models" : "--set " + above + "=...");
  }
  const auto found = json.find(name);
  if (found == json.end()) refuse_name(walk, name);
  return *found;
}

Json& element(Json& json, std::string_view digits, std::string_view path) {
  std::size_t index = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), index);
  if (error != std::errc() || end != digits.data() + digits.size())
    refuse_path(path, "expected a number between [ and ], got \"" + std::string(digits) + "\"", "layers[0].attention");
  if (!json.is_array() || index >= json.size())
    refuse_path(
        path,
        "there is no element " + std::string(digits) + ": it has " + std::to_string(json.is_array() ? json.size() : 0),
        "--set " + std::string(path.substr(0, path.find('['))) +
            (json.is_array() && !json.empty() ? "[0]=..." : "=..."));
  return json[index];
}

// Follows "a.b[1].c" down into the settings.
Json& follow(const Walk& walk) {
  Json* json = &walk.root;
  const std::string_view path = walk.path;
  std::string_view rest = path;
  while (!rest.empty()) {
    if (rest.front() == '[') {
      const std::size_t close = rest.find(']');
      if (close == std::string_view::npos) refuse_path(path, "a [ without its ]", "layers[0]");
      json = &element(*json, rest.substr(1, close - 1), path);
      rest.remove_prefix(close + 1);
    } else {
      const std::size_t end = std::min(rest.find_first_of(".["), rest.size());
      json = &member(walk, *json, rest.substr(0, end));
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
  Json& value = follow({json, assignment.substr(0, equals), assignment.substr(equals + 1)});
  value = converted(value, assignment.substr(equals + 1));
}

}  // namespace fovea
