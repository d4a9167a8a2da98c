#pragma once

#include <cstddef>
#include <utility>

namespace fovea {

// Stands in for a value of any type, to count what a struct is made of.
struct AnyField {
  template <class T>
  operator T() const;  // NOLINT(google-explicit-constructor)
};

template <class T, class... Found>
consteval std::size_t field_count() {
  if constexpr (requires { T{std::declval<Found>()..., std::declval<AnyField>()}; })
    return field_count<T, Found..., AnyField>();
  else
    return sizeof...(Found);
}

// use(field, ...) with the fields of a plain struct: at most 12, none of them a reference.
template <class T, class F>
void with_fields(const T& t, const F& use) {
  constexpr std::size_t kCount = field_count<T>();
  static_assert(kCount <= 12, "nest some of the fields in a struct of their own");
  if constexpr (kCount == 1) {
    const auto& [a] = t;
    use(a);
  } else if constexpr (kCount == 2) {
    const auto& [a, b] = t;
    use(a, b);
  } else if constexpr (kCount == 3) {
    const auto& [a, b, c] = t;
    use(a, b, c);
  } else if constexpr (kCount == 4) {
    const auto& [a, b, c, d] = t;
    use(a, b, c, d);
  } else if constexpr (kCount == 5) {
    const auto& [a, b, c, d, e] = t;
    use(a, b, c, d, e);
  } else if constexpr (kCount == 6) {
    const auto& [a, b, c, d, e, f] = t;
    use(a, b, c, d, e, f);
  } else if constexpr (kCount == 7) {
    const auto& [a, b, c, d, e, f, g] = t;
    use(a, b, c, d, e, f, g);
  } else if constexpr (kCount == 8) {
    const auto& [a, b, c, d, e, f, g, h] = t;
    use(a, b, c, d, e, f, g, h);
  } else if constexpr (kCount == 9) {
    const auto& [a, b, c, d, e, f, g, h, i] = t;
    use(a, b, c, d, e, f, g, h, i);
  } else if constexpr (kCount == 10) {
    const auto& [a, b, c, d, e, f, g, h, i, j] = t;
    use(a, b, c, d, e, f, g, h, i, j);
  } else if constexpr (kCount == 11) {
    const auto& [a, b, c, d, e, f, g, h, i, j, k] = t;
    use(a, b, c, d, e, f, g, h, i, j, k);
  } else if constexpr (kCount == 12) {
    const auto& [a, b, c, d, e, f, g, h, i, j, k, l] = t;
    use(a, b, c, d, e, f, g, h, i, j, k, l);
  }
}

}  // namespace fovea
