#include "io/json.h"

#include <algorithm>
#include <set>
#include <utility>
#include <vector>

#include "fovea/error.h"

namespace fovea {
namespace {

using Event = Json::parse_event_t;

std::string position(std::string_view text, std::size_t byte) {
  const std::string_view before = text.substr(0, std::min(byte, text.size()));
  const auto line = 1 + std::count(before.begin(), before.end(), '\n');
  const std::size_t newline = before.rfind('\n');
  const std::size_t column = newline == std::string_view::npos ? before.size() : before.size() - newline - 1;
  return "line " + std::to_string(line) + ", column " + std::to_string(std::max<std::size_t>(column, 1));
}

// What the library says, in our words; what it says of the position we word ourselves.
std::string reason(std::string_view what) {
  constexpr std::pair<std::string_view, std::string_view> kWords[] = {
      {"unexpected end of input", "it ends too early"},
      {"ill-formed UTF-8", "a byte that belongs to no character of UTF-8"},
      {"control character", "a control character inside a text, such as the end of a line"},
      {"invalid string", "a text with a \\ that means nothing"},
      {"invalid number", "a number that is not written as one"},
      {"number overflow", "a number that is too large"},
      {"invalid comment", "a comment: there are none in JSON"},
      {"invalid literal", "a word that is none of true, false and null; texts stand between \" and \""},
  };
  for (const auto& [theirs, ours] : kWords)
    if (what.find(theirs) != std::string_view::npos) return std::string(ours);
  return "a comma, a bracket or a quotation mark too many, or one that is missing";
}

// Watches the parser: how deep it is, and which keys the open objects have.
class Guard {
 public:
  explicit Guard(const std::string& where) : where_(where) {}

  template <class AnyJson>
  bool operator()(int depth, Event event, const AnyJson& value) {
    if (depth > kJsonDepth)
      fail(ErrorCode::bad_input, "JSON is nested deeper than " + std::to_string(kJsonDepth) + " levels", where_);
    if (event == Event::object_start) keys_.emplace_back();
    if (event == Event::object_end) keys_.pop_back();
    if (event == Event::key && !keys_.back().insert(value.template get_ref<const std::string&>()).second)
      fail(ErrorCode::bad_input, "key \"" + value.template get<std::string>() + "\" is given twice", where_);
    return true;
  }

 private:
  const std::string& where_;
  std::vector<std::set<std::string>> keys_;
};

template <class AnyJson>
AnyJson parse(std::string_view text, const std::string& where) {
  Guard guard(where);
  try {
    return AnyJson::parse(text, [&](int depth, typename AnyJson::parse_event_t event, AnyJson& value) {
      return guard(depth, static_cast<Event>(event), value);
    });
  } catch (const typename AnyJson::parse_error& error) {
    fail(ErrorCode::bad_input, "not JSON: " + reason(error.what()), where + ", " + position(text, error.byte));
  } catch (const typename AnyJson::exception& error) {
    fail(ErrorCode::bad_input, "not JSON: " + reason(error.what()), where);
  }
}

}  // namespace

Json parse_json(std::string_view text, const std::string& where) { return parse<Json>(text, where); }
JsonMap parse_json_map(std::string_view text, const std::string& where) { return parse<JsonMap>(text, where); }

std::string json_text(const Json& json) { return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n"; }

std::string_view json_kind(Json::value_t kind) {
  switch (kind) {
    case Json::value_t::null: return "null";
    case Json::value_t::boolean: return "true or false";
    case Json::value_t::string: return "a string";
    case Json::value_t::array: return "a list";
    case Json::value_t::object: return "an object";
    default: return "a number";
  }
}

}  // namespace fovea
