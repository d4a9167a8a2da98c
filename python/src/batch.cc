#include "batch.h"

#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <string>

#include "arrays.h"

namespace fovea::python {
namespace {

Tensor tensor_of(const Context& context, const nb::dict& given, const std::string& name, DType dtype) {
  if (!given.contains(name.c_str())) return {};
  const Tensor tensor = tensor_from(given[name.c_str()], name.c_str());
  if (tensor.dtype() != dtype)
    throw nb::type_error((name + " must be " + (dtype == DType::i32 ? "int32" : "float32")).c_str());
  return tensor.contiguous(context);
}

std::vector<std::int32_t> numbers_of(const nb::dict& given, const std::string& name) {
  return given.contains(name.c_str()) ? nb::cast<std::vector<std::int32_t>>(given[name.c_str()])
                                      : std::vector<std::int32_t>();
}

Input input_from(const Context& context, const nb::dict& given, const std::string& prefix) {
  Input input;
  input.ids = tensor_of(context, given, prefix + "ids", DType::i32);
  if (!input.ids.defined()) return input;
  if (input.ids.rank() != 2) throw nb::type_error((prefix + "ids must be int32 (batch, n)").c_str());
  input.types = tensor_of(context, given, prefix + "types", DType::i32);
  input.rows = {.lengths = numbers_of(given, prefix + "lengths"),
                .cu_seqlens = numbers_of(given, prefix + "cu_seqlens")};
  if (input.rows.empty())
    input.rows.lengths.assign(static_cast<std::size_t>(input.ids.dim(0)), static_cast<std::int32_t>(input.ids.dim(1)));
  return input;
}

}  // namespace

Batch batch_from(const Context& context, const nb::dict& given) {
  Batch batch;
  batch.input = input_from(context, given, "");
  batch.second = input_from(context, given, "second_");
  if (given.contains("pictures")) batch.input.values = tensor_of(context, given, "pictures", DType::f32);
  batch.targets = tensor_of(context, given, "targets", DType::i32);
  return batch;
}

}  // namespace fovea::python
