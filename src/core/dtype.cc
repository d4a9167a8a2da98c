#include "fovea/dtype.h"

#include <array>
#include <string>

namespace fovea {
namespace {

struct Row {
  DType dtype;
  std::string_view name;
  std::size_t size;
};

constexpr std::array<Row, 7> kRows{{
    {DType::f32, "f32", 4},
    {DType::bf16, "bf16", 2},
    {DType::f16, "f16", 2},
    {DType::f64, "f64", 8},
    {DType::i32, "i32", 4},
    {DType::i64, "i64", 8},
    {DType::u8, "u8", 1},
}};

const Row& row(DType dtype) { return kRows[static_cast<std::size_t>(dtype)]; }

}  // namespace

std::size_t size_of(DType dtype) { return row(dtype).size; }
std::string_view name_of(DType dtype) { return row(dtype).name; }

DType dtype_from_name(std::string_view name) {
  for (const Row& r : kRows)
    if (r.name == name) return r.dtype;
  fail(ErrorCode::usage, "unknown dtype \"" + std::string(name) + "\"", {}, "one of f32, bf16, f16, f64, i32, i64, u8");
}

bool is_float(DType dtype) { return dtype <= DType::f64; }

}  // namespace fovea
