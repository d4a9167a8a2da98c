#include "arrays.h"

#include <fmt/format.h>
#include <nanobind/ndarray.h>

#include <string_view>
#include <vector>

namespace fovea::python {
namespace {

using Array = nb::ndarray<nb::ro>;
using Code = nb::dlpack::dtype_code;

struct TypeName {
  DType dtype;
  Code code;
  std::uint8_t bits;
};
constexpr TypeName kTypes[] = {{DType::f32, Code::Float, 32}, {DType::bf16, Code::Bfloat, 16},
                               {DType::f16, Code::Float, 16}, {DType::f64, Code::Float, 64},
                               {DType::i32, Code::Int, 32},   {DType::i64, Code::Int, 64},
                               {DType::u8, Code::UInt, 8},    {DType::u8, Code::Bool, 8}};

constexpr const char* kComputesIn = "it computes in float32, bfloat16, float16 and float64";

DType dtype_from(nb::dlpack::dtype dtype, const char* name) {
  for (const TypeName& type : kTypes)
    if (static_cast<std::uint8_t>(type.code) == dtype.code && type.bits == dtype.bits && dtype.lanes == 1)
      return type.dtype;
  throw nb::type_error(fmt::format("{} has a dtype that fovea does not know; {}", name, kComputesIn).c_str());
}

nb::dlpack::dtype dtype_to(DType dtype, Kind kind) {
  if (dtype == DType::bf16 && kind == Kind::numpy) return {static_cast<std::uint8_t>(Code::UInt), 16, 1};
  for (const TypeName& type : kTypes)
    if (type.dtype == dtype) return {static_cast<std::uint8_t>(type.code), type.bits, 1};
  fail(ErrorCode::internal, "a dtype without a DLPack name");
}

// NumPy has no exchange format for bfloat16: its numbers as integers of their size. Refuses all else.
Array integers_of(nb::handle object, const char* name) {
  if (!nb::hasattr(object, "dtype") || !nb::hasattr(object, "view"))
    throw nb::type_error(fmt::format("{} must be an array (NumPy, PyTorch, JAX or any with __dlpack__), not {}", name,
                                     nb::inst_name(object).c_str())
                             .c_str());
  const nb::object type = object.attr("dtype");
  const nb::str dtype{nb::handle(type)};
  if (std::string_view(dtype.c_str()) != "bfloat16")
    throw nb::type_error(
        fmt::format("{} has the dtype {}, which fovea does not know; {}", name, dtype.c_str(), kComputesIn).c_str());
  return nb::cast<Array>(object.attr("view")("uint16"));
}

// Arrays may be let go on any thread, and after the interpreter.
void release(void* array) {
  if (!nb::is_alive()) return;
  const nb::gil_scoped_acquire gil;
  delete static_cast<Array*>(array);
}

}  // namespace

Tensor tensor_from(nb::handle object, const char* name) {
  Array input;
  const bool exchanged = nb::try_cast(object, input);
  if (!exchanged) input = integers_of(object, name);
  if (input.device_type() != nb::device::cpu::value)
    throw nb::type_error(
        fmt::format("{} is not in the memory of the CPU; this build has no other device", name).c_str());
  if (input.ndim() > static_cast<std::size_t>(Shape::kMaxRank))
    throw nb::value_error(
        fmt::format("{} has {} axes, at most {} are possible", name, input.ndim(), Shape::kMaxRank).c_str());
  const std::span shape(input.shape_ptr(), input.ndim()), strides(input.stride_ptr(), input.ndim());
  const DType dtype = exchanged ? dtype_from(input.dtype(), name) : DType::bf16;
  void* const data = const_cast<void*>(input.data());
  return Tensor::wrap(data, Shape(shape), strides, dtype, std::shared_ptr<void>(new Array(std::move(input)), release));
}

nb::object array_from(const Tensor& tensor, Kind kind) {
  if (!tensor.defined()) return nb::none();
  const nb::capsule owner(new Tensor(tensor), [](void* t) noexcept { delete static_cast<Tensor*>(t); });
  std::vector<std::size_t> shape;
  std::vector<std::int64_t> strides;
  for (int i = 0; i < tensor.rank(); ++i) {
    shape.push_back(static_cast<std::size_t>(tensor.dim(i)));
    strides.push_back(tensor.stride(i));
  }
  const auto make = [&]<class... Framework>() {
    return nb::cast(nb::ndarray<Framework...>(tensor.raw(), shape.size(), shape.data(), owner, strides.data(),
                                              dtype_to(tensor.dtype(), kind), nb::device::cpu::value));
  };
  return kind == Kind::numpy ? make.operator()<nb::numpy>() : make.operator()<nb::array_api>();
}

}  // namespace fovea::python
