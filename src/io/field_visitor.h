#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "fovea/error.h"

// One description of a settings struct serves its JSON file, its printed form, `--set a.b=c`, its help text and its
// errors:
//
//   struct Train {
//     double lr = 1e-3;
//     Schedule schedule = Schedule::cosine;
//     template <class V>
//     void fields(V& v) {
//       v("lr", lr, "peak learning rate", above(0));
//       v("schedule", schedule, "how the rate moves", one_of({"constant", "cosine"}));  // in the enum's order
//     }
//     void check() const;  // optional: what one field alone cannot tell
//   };
//
// Members may be bool, integers, float, double, strings, enums, other such structs, std::optional and std::vector of
// these.
namespace fovea {

// What values a field takes. Ends are included unless `open_low`.
struct Allowed {
  double low = -std::numeric_limits<double>::infinity();
  double high = std::numeric_limits<double>::infinity();
  bool open_low = false;
  std::vector<std::string_view> choices = {};  // of a string or an enum; empty: any

  bool holds(double value) const { return (open_low ? value > low : value >= low) && value <= high; }
  std::string text() const;  // "between 0 and 1"; empty when anything goes
};

inline Allowed between(double low, double high) { return {.low = low, .high = high}; }
inline Allowed at_least(double low) { return {.low = low}; }
inline Allowed above(double low) { return {.low = low, .open_low = true}; }
inline Allowed one_of(std::vector<std::string_view> names) { return {.choices = std::move(names)}; }

struct Field {
  std::string_view name;  // empty for an element of a list
  std::string_view help;
  Allowed allowed;
};

template <class T>
struct IsVector : std::false_type {};
template <class T>
struct IsVector<std::vector<T>> : std::true_type {};
template <class T>
struct IsOptional : std::false_type {};
template <class T>
struct IsOptional<std::optional<T>> : std::true_type {};

// Walks the fields of a struct. The template side below knows the C++ types; a visitor sees only a few kinds.
class FieldVisitor {
 public:
  virtual ~FieldVisitor() = default;

  template <class T>
  void operator()(std::string_view name, T& value, std::string_view help, Allowed allowed = {}) {
    visit(Field{name, help, std::move(allowed)}, value);
  }

  template <class T>
  void visit(const Field& field, T& value);

 protected:
  virtual void boolean(const Field& field, bool& value) = 0;
  virtual void integer(const Field& field, std::int64_t& value) = 0;
  virtual void natural(const Field& field, std::uint64_t& value) = 0;
  virtual void real(const Field& field, double& value) = 0;
  virtual void text(const Field& field, std::string& value) = 0;
  // Whether to visit the value at all: an optional that is, or shall be, empty is passed over.
  virtual bool present(const Field& field, bool now) = 0;
  // Returns whether the group is to be visited; leave() follows if so. `failure` carries what check() found.
  virtual bool enter(const Field& field) = 0;
  virtual void leave(const Error* failure) = 0;
  // The number of elements the list has, or shall have; elements are visited in order, then leave() follows.
  virtual std::size_t enter_list(const Field& field, std::size_t now) = 0;

 private:
  template <class T>
  void visit_number(const Field& field, T& value);
  template <class T>
  void visit_group(const Field& field, T& value);
};

namespace fields_detail {

double shortest(float value);  // 0.1f as 0.1, not as 0.10000000149

}  // namespace fields_detail

template <class T>
void FieldVisitor::visit_number(const Field& field, T& value) {
  if constexpr (std::is_floating_point_v<T>) {
    double wide = std::is_same_v<T, float> ? fields_detail::shortest(static_cast<float>(value)) : value;
    real(field, wide);
    value = static_cast<T>(wide);
  } else if constexpr (std::is_same_v<T, std::uint64_t>) {
    natural(field, value);
  } else {
    Field bounded = field;  // so that narrowing below loses nothing
    bounded.allowed.low = std::max(bounded.allowed.low, static_cast<double>(std::numeric_limits<T>::min()));
    if constexpr (sizeof(T) < 8)
      bounded.allowed.high = std::min(bounded.allowed.high, static_cast<double>(std::numeric_limits<T>::max()));
    std::int64_t wide = static_cast<std::int64_t>(value);
    integer(bounded, wide);
    value = static_cast<T>(wide);
  }
}

template <class T>
void FieldVisitor::visit_group(const Field& field, T& value) {
  if (!enter(field)) return;
  value.fields(*this);
  if constexpr (requires { value.check(); }) {
    try {
      value.check();
    } catch (const Error& error) {
      return leave(&error);
    }
  }
  leave(nullptr);
}

template <class T>
void FieldVisitor::visit(const Field& field, T& value) {
  if constexpr (std::is_same_v<T, bool>) {
    boolean(field, value);
  } else if constexpr (std::is_arithmetic_v<T>) {
    visit_number(field, value);
  } else if constexpr (std::is_same_v<T, std::string>) {
    text(field, value);
  } else if constexpr (std::is_enum_v<T>) {
    const auto& names = field.allowed.choices;
    std::string name(names.at(static_cast<std::size_t>(value)));
    text(field, name);
    value = static_cast<T>(std::find(names.begin(), names.end(), name) - names.begin());
  } else if constexpr (IsOptional<T>::value) {
    if (!present(field, value.has_value())) return value.reset();
    if (!value) value.emplace();
    visit(field, *value);
  } else if constexpr (IsVector<T>::value) {
    value.resize(enter_list(field, value.size()));
    for (auto& element : value) visit(Field{{}, field.help, field.allowed}, element);
    leave(nullptr);
  } else {
    visit_group(field, value);
  }
}

}  // namespace fovea
