#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <type_traits>

#include "fovea/error.h"
#include "fovea/export.h"
#include "fovea/half.h"

namespace fovea {

enum class DType : std::uint8_t { f32, bf16, f16, f64, i32, i64, u8 };

FOVEA_EXPORT std::size_t size_of(DType dtype);
FOVEA_EXPORT std::string_view name_of(DType dtype);
FOVEA_EXPORT DType dtype_from_name(std::string_view name);  // "f32", "bf16", ...; refuses others
FOVEA_EXPORT bool is_float(DType dtype);

// The DType of a C++ type: dtype_of<float> == DType::f32.
template <class T>
inline constexpr DType dtype_of = [] {
  if constexpr (std::is_same_v<T, float>)
    return DType::f32;
  else if constexpr (std::is_same_v<T, bf16>)
    return DType::bf16;
  else if constexpr (std::is_same_v<T, f16>)
    return DType::f16;
  else if constexpr (std::is_same_v<T, double>)
    return DType::f64;
  else if constexpr (std::is_same_v<T, std::int32_t>)
    return DType::i32;
  else if constexpr (std::is_same_v<T, std::int64_t>)
    return DType::i64;
  else {
    static_assert(std::is_same_v<T, std::uint8_t>, "no DType for this type");
    return DType::u8;
  }
}();

// The type in which values of T are accumulated: double for double, float otherwise.
template <class T>
using Wide = std::conditional_t<std::is_same_v<T, double>, double, float>;

// Calls f.template operator()<T>() with the C++ type of a floating dtype.
template <class F>
decltype(auto) visit_float(DType dtype, F&& f) {
  switch (dtype) {
    case DType::f32: return f.template operator()<float>();
    case DType::bf16: return f.template operator()<bf16>();
    case DType::f16: return f.template operator()<f16>();
    case DType::f64: return f.template operator()<double>();
    default: fail(ErrorCode::usage, "expected a floating dtype, got " + std::string(name_of(dtype)));
  }
}

// The same for every dtype.
template <class F>
decltype(auto) visit(DType dtype, F&& f) {
  switch (dtype) {
    case DType::i32: return f.template operator()<std::int32_t>();
    case DType::i64: return f.template operator()<std::int64_t>();
    case DType::u8: return f.template operator()<std::uint8_t>();
    default: return visit_float(dtype, f);
  }
}

// Turns run-time booleans into std::bool_constant arguments of a generic lambda.
template <class F>
decltype(auto) visit_bool(bool value, F&& f) {
  if (value) return f(std::true_type{});
  return f(std::false_type{});
}

}  // namespace fovea
