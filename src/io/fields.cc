#include "io/fields.h"

#include <fmt/format.h>

#include <cmath>
#include <optional>

#include "core/nearest.h"
#include "io/unknown_field.h"

namespace fovea {
namespace {

using fields_detail::Described;

// Where a visitor is: "model.layers[1].attention".
class FieldPath {
 public:
  void enter(const Field& field) { frames_.push_back({frames_.empty() ? "" : of(field), 0, false}); }
  void enter_list(const Field& field) { frames_.push_back({of(field), 0, true}); }
  void leave() {
    frames_.pop_back();
    next();
  }
  // A field of the innermost group or the element of the innermost list that is due.
  std::string of(const Field& field) const {
    const Frame& frame = frames_.back();
    if (frame.list) return frame.path + "[" + std::to_string(frame.index) + "]";
    return frame.path + (frame.path.empty() ? "" : ".") + std::string(field.name);
  }
  std::string here() const { return frames_.back().path; }
  std::size_t index() const { return frames_.back().index; }
  void next() {
    if (!frames_.empty() && frames_.back().list) ++frames_.back().index;
  }

 private:
  struct Frame {
    std::string path;
    std::size_t index;
    bool list;
  };
  std::vector<Frame> frames_;
};

constexpr double kExactIntegers = 9007199254740992.0;  // 2^53: doubles beyond are not exact

class Reader : public FieldVisitor {
 public:
  Reader(const Json& json, std::string origin, ErrorCode code) : root_(json), origin_(std::move(origin)), code_(code) {}

 protected:
  void boolean(const Field& field, bool& value) override {
    const Json* json = take(field);
    if (json == nullptr) return;
    if (!json->is_boolean()) refuse(field, "true or false", *json, value ? "true" : "false");
    value = json->get<bool>();
    path_.next();
  }

  void integer(const Field& field, std::int64_t& value) override { read_integer(field, value); }
  void natural(const Field& field, std::uint64_t& value) override { read_integer(field, value); }

  void real(const Field& field, double& value) override {
    const Json* json = take(field);
    if (json == nullptr) return;
    double read = 0;
    if (json->is_number())
      read = json->get<double>();
    else if (*json == "inf")
      read = INFINITY;
    else if (*json == "-inf")
      read = -INFINITY;
    else
      refuse(field, "a number", *json, fmt::format("{}", value));
    if (!field.allowed.holds(read)) refuse(field, "a number", *json, fmt::format("{}", value));
    value = read;
    path_.next();
  }

  void text(const Field& field, std::string& value) override {
    const Json* json = take(field);
    if (json == nullptr) return;
    const bool plain = code_ == ErrorCode::usage && json->is_primitive();  // --set name=12 means the string "12"
    if (!json->is_string() && !plain) refuse(field, "a string", *json, fmt::format("\"{}\"", value));
    std::string read = json->is_string() ? json->get<std::string>() : json->dump();
    const auto& choices = field.allowed.choices;
    if (!choices.empty() && std::find(choices.begin(), choices.end(), read) == choices.end())
      fail(code_, fmt::format("unknown {} \"{}\"", field.name.empty() ? "value" : field.name, read),
           where(path_.of(field)), value_hint(field, read));
    value = std::move(read);
    path_.next();
  }

  bool present(const Field& field, bool now) override {
    const Json* json = take(field);
    const bool there = json == nullptr ? now : !json->is_null();
    if (!there) path_.next();
    return there;
  }

  bool enter(const Field& field) override {
    const Json* json = frames_.empty() ? &root_ : take(field);
    if (json == nullptr) return false;
    if (!json->is_object()) refuse(field, "an object", *json);
    path_.enter(field);
    frames_.push_back({json, {}});
    return true;
  }

  std::size_t enter_list(const Field& field, std::size_t now) override {
    static const Json kAbsent;
    const Json* json = take(field);
    if (json != nullptr && !json->is_array()) refuse(field, "a list", *json);
    path_.enter_list(field);
    frames_.push_back({json == nullptr ? &kAbsent : json, {}});
    return json == nullptr ? now : json->size();
  }

  void leave(const Error* failure) override {
    const Frame frame = std::move(frames_.back());
    frames_.pop_back();
    if (frame.json->is_object()) refuse_unknown(frame);
    if (failure != nullptr) {
      const Error placed = path_.here().empty() ? *failure : failure->inside(path_.here());
      const ErrorCode code = placed.code() == ErrorCode::usage ? code_ : placed.code();
      throw Error(code, placed.message(), where(placed.where()), placed.hint());
    }
    path_.leave();
  }

 private:
  struct Frame {
    const Json* json;
    std::vector<std::string_view> known;  // the names asked for so far
  };

  // The value given for a field, or null. A list hands out its elements in order.
  const Json* take(const Field& field) {
    Frame& frame = frames_.back();
    if (frame.json->is_array()) return &(*frame.json)[path_.index()];
    if (!frame.json->is_object()) return nullptr;
    frame.known.push_back(field.name);
    const auto found = frame.json->find(field.name);
    return found == frame.json->end() ? nullptr : &*found;
  }

  template <class T>
  void read_integer(const Field& field, T& value) {
    const Json* json = take(field);
    if (json == nullptr) return;
    const char* kind = std::is_signed_v<T> ? "a whole number" : "a whole number of at least 0";
    const std::string now = std::to_string(value);
    if (!json->is_number()) refuse(field, kind, *json, now);
    const double wide = json->get<double>();
    const bool exact = json->is_number_integer() || (std::floor(wide) == wide && std::abs(wide) < kExactIntegers);
    const bool fits = std::is_signed_v<T> ? !(json->is_number_unsigned() && wide >= 0x1p63) : wide >= 0;
    if (!exact || !fits || !field.allowed.holds(wide)) refuse(field, kind, *json, now);
    value = json->is_number_integer() ? json->get<T>() : static_cast<T>(wide);
    path_.next();
  }

  void refuse_unknown(const Frame& frame) const {
    for (const auto& [key, value] : frame.json->items()) {
      if (std::find(frame.known.begin(), frame.known.end(), key) != frame.known.end()) continue;
      const std::string above = path_.here() + (path_.here().empty() ? "" : ".");
      const std::string near(nearest_name(key, frame.known));
      const bool typed = code_ == ErrorCode::usage && !near.empty() && value.is_primitive();
      throw UnknownField(
          code_, "unknown key \"" + key + "\"", where(above + key),
          typed ? fmt::format("{} {}{}={}", origin_, above, near, bare(value)) : name_hint(key, frame.known));
    }
  }

  static std::string bare(const Json& value) { return value.is_string() ? value.get<std::string>() : value.dump(); }

  // What can be typed for a field: on a command line with its name.
  std::string typed(const Field& field, std::string_view value) const {
    if (field.name.empty() || code_ != ErrorCode::usage) return std::string(value);
    return fmt::format("{} {}={}", origin_, path_.of(field), value);
  }

  std::string value_hint(const Field& field, std::string_view read) const {
    const std::string_view near = nearest_name(read, field.allowed.choices);
    return near.empty() || code_ != ErrorCode::usage ? name_hint(read, field.allowed.choices) : typed(field, near);
  }

  // `now` is the value that the field has: one that it may have.
  [[noreturn]] void refuse(const Field& field, std::string_view kind, const Json& json,
                           const std::string& now = {}) const {
    const std::string range = field.allowed.text();
    std::string got = json.dump(-1, ' ', false, Json::error_handler_t::replace);
    if (got.size() > 40) got = json_kind(json);
    fail(code_, fmt::format("expected {}{}{}, got {}", kind, range.empty() ? "" : " ", range, got),
         where(frames_.empty() ? "" : path_.of(field)),
         now.empty() ? std::string(field.help) : fmt::format("{}   ({})", typed(field, now), field.help));
  }

  std::string where(const std::string& path) const {
    if (origin_.empty() || path.empty()) return origin_ + path;
    return origin_ + (code_ == ErrorCode::usage ? " " : ": ") + path;
  }

  const Json& root_;
  std::string origin_;
  ErrorCode code_;
  FieldPath path_;
  std::vector<Frame> frames_;
};

class Writer : public FieldVisitor {
 public:
  Json result() && { return std::move(root_); }

 protected:
  void boolean(const Field& field, bool& value) override { put(field, value); }
  void integer(const Field& field, std::int64_t& value) override { put(field, value); }
  void natural(const Field& field, std::uint64_t& value) override { put(field, value); }
  void real(const Field& field, double& value) override {
    put(field, std::isfinite(value) ? Json(value) : Json(fmt::format("{}", value)));
  }
  void text(const Field& field, std::string& value) override { put(field, value); }
  bool present(const Field& field, bool now) override {
    if (!now) put(field, nullptr);
    return now;
  }
  bool enter(const Field& field) override {
    open_.push_back(open_.empty() ? &(root_ = Json::object()) : put(field, Json::object()));
    return true;
  }
  std::size_t enter_list(const Field& field, std::size_t now) override {
    open_.push_back(put(field, Json::array()));
    return now;
  }
  void leave(const Error*) override { open_.pop_back(); }

 private:
  Json* put(const Field& field, Json value) {
    Json& into = *open_.back();
    if (into.is_array()) return &into.emplace_back(std::move(value));
    return &(into[std::string(field.name)] = std::move(value));
  }

  Json root_;
  std::vector<Json*> open_;  // a group is finished before the next one is put beside it, so these stay valid
};

class Describer : public FieldVisitor {
 public:
  explicit Describer(Described what) : as_it_is_(what == Described::as_it_is) {}
  std::vector<FieldHelp> result() && { return std::move(lines_); }

 protected:
  void boolean(const Field& field, bool& value) override {
    line(field, value ? "true" : "false");
    if (!lines_.empty() && !in_list()) lines_.back().choices = {"true", "false"};
  }
  void integer(const Field& field, std::int64_t& value) override { line(field, std::to_string(value)); }
  void natural(const Field& field, std::uint64_t& value) override { line(field, std::to_string(value)); }
  void real(const Field& field, double& value) override { line(field, fmt::format("{}", value)); }
  void text(const Field& field, std::string& value) override { line(field, value); }
  bool present(const Field& field, bool now) override {
    if (as_it_is_ && !now) line(field, "none");
    return now || !as_it_is_;
  }
  bool enter(const Field& field) override {
    const std::string place = in_list() ? fmt::format("[{}]", lists_.back()->groups++) : "";
    prefixes_.push_back(prefixes_.empty() ? "" : path(field) + place + ".");
    lists_.emplace_back();
    return true;
  }
  std::size_t enter_list(const Field& field, std::size_t now) override {
    prefixes_.push_back(path(field) + (as_it_is_ ? "" : "[i]"));
    lists_.emplace_back(as_it_is_ ? std::optional(List{field, {}, now == 0, 0}) : std::nullopt);
    return as_it_is_ ? now : 1;  // one element stands for all
  }
  void leave(const Error*) override {
    const std::optional<List> list = std::move(lists_.back());
    const std::string at = std::move(prefixes_.back());
    lists_.pop_back();
    prefixes_.pop_back();
    if (list && (list->empty || !list->values.empty()))
      put(at, fmt::format("{}", fmt::join(runs_of(list->values), ",")), list->field);
  }

 private:
  struct List {
    Field field;
    std::vector<std::string> values;
    bool empty;
    int groups;  // elements that have lines of their own
  };

  // "norm*2" for two of them. Numbers stay as they are.
  static std::vector<std::string> runs_of(const std::vector<std::string>& values) {
    std::vector<std::string> runs;
    for (std::size_t i = 0, next; i < values.size(); i = next) {
      const bool name = values[i].find_first_not_of("+-.0123456789e") != std::string::npos;
      for (next = i + 1; name && next < values.size() && values[next] == values[i];) ++next;
      runs.push_back(next - i > 1 ? fmt::format("{}*{}", values[i], next - i) : values[i]);
    }
    return runs;
  }

  bool in_list() const { return !lists_.empty() && lists_.back(); }
  std::string path(const Field& field) const { return prefixes_.back() + std::string(field.name); }
  void line(const Field& field, std::string value) {
    if (in_list())
      lists_.back()->values.push_back(std::move(value));
    else
      put(path(field), std::move(value), field);
  }
  void put(std::string path, std::string value, const Field& field) {
    const auto& choices = field.allowed.choices;
    lines_.push_back({std::move(path), std::move(value), std::string(field.help), field.allowed.text(),
                      std::vector<std::string>(choices.begin(), choices.end())});
  }

  bool as_it_is_;
  std::vector<std::string> prefixes_;
  std::vector<std::optional<List>> lists_;  // beside each prefix: what a list has so far
  std::vector<FieldHelp> lines_;
};

}  // namespace

std::string Allowed::text() const {
  if (!choices.empty()) return fmt::format("one of {}", fmt::join(choices, ", "));
  constexpr double kNoLimit = 0x1p31 - 1;  // the ends of int and beyond are not worth mentioning
  const bool bottom = low > -kNoLimit, top = high < kNoLimit;
  if (bottom && top) return fmt::format("between {} and {}", low, high);
  if (bottom) return fmt::format("{} {}", open_low ? "above" : "of at least", low);
  return top ? fmt::format("of at most {}", high) : "";
}

namespace fields_detail {

void read(void* settings, Visit visit, const Json& json, const std::string& origin, ErrorCode code) {
  Reader reader(json, origin, code);
  visit(settings, reader);
}

Json write(void* settings, Visit visit) {
  Writer writer;
  visit(settings, writer);
  return std::move(writer).result();
}

std::vector<FieldHelp> describe(void* settings, Visit visit, Described what) {
  Describer describer(what);
  visit(settings, describer);
  return std::move(describer).result();
}

double shortest(float value) { return std::isfinite(value) ? std::stod(fmt::format("{}", value)) : value; }

}  // namespace fields_detail
}  // namespace fovea
