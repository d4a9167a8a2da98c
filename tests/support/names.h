#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <ostream>
#include <string>

#include "core/isa.h"
#include "fovea/dtype.h"

// What the parameters of a test are called in its output.
namespace fovea {

inline void PrintTo(Isa isa, std::ostream* out) { *out << name_of(isa); }
inline void PrintTo(DType dtype, std::ostream* out) { *out << name_of(dtype); }

// In the characters that GoogleTest takes: "avx512-bf16" becomes "avx512_bf16".
inline std::string test_name(std::string name) {
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}

// Not by PrintTo where there is a name: a file that does not see PrintTo may lend its own way of printing the type.
inline constexpr auto kNamedAsPrinted = [](const auto& info) {
  if constexpr (requires { name_of(info.param); }) return test_name(std::string(name_of(info.param)));
  return test_name(::testing::PrintToString(info.param));
};

}  // namespace fovea
