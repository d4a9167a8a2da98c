#include "io/fields.h"

#include <fmt/format.h>

#include <cmath>

#include "core/nearest.h"

namespace fovea {
namespace {

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
    if (!json->is_boolean()) refuse(field, "true or false", *json);
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
      refuse(field, "a number", *json);
    if (!field.allowed.holds(read)) refuse(field, "a number", *json);
    value = read;
    path_.next();
  }

  void text(const Field& field, std::string& value) override {
    const Json* json = take(field);
    if (json == nullptr) return;
    const bool plain = code_ == ErrorCode::usage && json->is_primitive();  // --set name=12 means the string "12"
    if (!json->is_string() && !plain) refuse(field, "a string", *json);
    std::string read = json->is_string() ? json->get<std::string>() : json->dump();
    const auto& choices = field.allowed.choices;
    if (!choices.empty() && std::find(choices.begin(), choices.end(), read) == choices.end())
      fail(code_, fmt::format("unknown {} \"{}\"", field.name.empty() ? "value" : field.name, read),
           where(path_.of(field)), name_hint(read, choices));
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
    if (!json->is_number()) refuse(field, kind, *json);
    const double wide = json->get<double>();
    const bool exact = json->is_number_integer() || (std::floor(wide) == wide && std::abs(wide) < kExactIntegers);
    const bool fits = std::is_signed_v<T> ? !(json->is_number_unsigned() && wide >= 0x1p63) : wide >= 0;
    if (!exact || !fits || !field.allowed.holds(wide)) refuse(field, kind, *json);
    value = json->is_number_integer() ? json->get<T>() : static_cast<T>(wide);
    path_.next();
  }

  void refuse_unknown(const Frame& frame) const {
    for (const auto& [key, value] : frame.json->items()) {
      if (std::find(frame.known.begin(), frame.known.end(), key) != frame.known.end()) continue;
      const std::string path = path_.here() + (path_.here().empty() ? "" : ".") + key;
      fail(code_, "unknown key \"" + key + "\"", where(path), name_hint(key, frame.known));
    }
  }

  [[noreturn]] void refuse(const Field& field, std::string_view kind, const Json& json) const {
    const std::string range = field.allowed.text();
    std::string got = json.dump(-1, ' ', false, Json::error_handler_t::replace);
    if (got.size() > 40) got = json_kind(json);
    fail(code_, fmt::format("expected {}{}{}, got {}", kind, range.empty() ? "" : " ", range, got),
         where(frames_.empty() ? "" : path_.of(field)), std::string(field.help));
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
  std::vector<FieldHelp> result() && { return std::move(lines_); }

 protected:
  void boolean(const Field& field, bool& value) override { line(field, value ? "true" : "false"); }
  void integer(const Field& field, std::int64_t& value) override { line(field, std::to_string(value)); }
  void natural(const Field& field, std::uint64_t& value) override { line(field, std::to_string(value)); }
  void real(const Field& field, double& value) override { line(field, fmt::format("{}", value)); }
  void text(const Field& field, std::string& value) override { line(field, value); }
  bool present(const Field&, bool) override { return true; }
  bool enter(const Field& field) override {
    prefixes_.push_back(prefixes_.empty() ? "" : path(field) + ".");
    return true;
  }
  std::size_t enter_list(const Field& field, std::size_t) override {
    prefixes_.push_back(path(field) + "[i]");
    return 1;  // one element stands for all
  }
  void leave(const Error*) override { prefixes_.pop_back(); }

 private:
  std::string path(const Field& field) const { return prefixes_.back() + std::string(field.name); }
  void line(const Field& field, std::string value) {
    lines_.push_back({path(field), std::move(value), std::string(field.help), field.allowed.text()});
  }

  std::vector<std::string> prefixes_;
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

std::vector<FieldHelp> describe(void* settings, Visit visit) {
  Describer describer;
  visit(settings, describer);
  return std::move(describer).result();
}

double shortest(float value) { return std::isfinite(value) ? std::stod(fmt::format("{}", value)) : value; }

}  // namespace fields_detail
}  // namespace fovea
