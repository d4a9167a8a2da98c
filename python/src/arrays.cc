#include "arrays.h"

#include <fmt/format.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>

#include <memory>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "bindings.h"

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

// Who has a stream gives its arrays on that one; for others it is said on which stream they are read.
bool import(nb::handle object, const Home& home, Array& input) {
  if (home.place.device == Device::cpu || home.place.stream != 0 || !nb::hasattr(object, "__dlpack__"))
    return nb::try_cast(object, input);
  const Stream stream = with_streams(*home.memory, [&]<Device D>() { return Streams<D>::stream_of(*home.memory); });
  return nb::try_cast(object.attr("__dlpack__")(nb::arg("stream") = stream), input);
}

void check_home(const Array& input, const char* name, const Home& home) {
  const bool on_card = input.device_type() == nb::device::cuda::value;
  if (!on_card && input.device_type() != nb::device::cpu::value)
    throw nb::type_error(
        fmt::format("{} is neither in the memory of the CPU nor on a CUDA card; fovea knows no other device", name)
            .c_str());
  const Place there{on_card ? Device::cuda : Device::cpu, on_card ? static_cast<int>(input.device_id()) : 0};
  if (there.device == home.place.device && there.index == home.place.index) return;
  const std::string rule = home.first == nullptr ? "and this function reads arrays in the memory of the CPU"
                                                 : fmt::format("{} on {}: arrays of one call lie on one device",
                                                               home.first, name_of(home.place));
  throw nb::type_error(
      fmt::format("{} is on {}, {}\n  try     {}.to(\"{}\")", name, name_of(there), rule, name, name_of(home.place))
          .c_str());
}

// A result that somebody else reads, on a stream of its own perhaps.
struct Held {
  Tensor tensor;
  Stream reader;

  static nb::capsule hold(const Tensor& tensor, Stream reader) {
    return {new Held{tensor, reader}, [](void* given) noexcept {
              const std::unique_ptr<Held> held(static_cast<Held*>(given));
              give_back(std::move(held->tensor), held->reader);
            }};
  }
};

template <class... Framework>
nb::object share(const Tensor& tensor, Kind kind, const Place& place) {
  std::vector<std::size_t> shape;
  std::vector<std::int64_t> strides;
  for (int i = 0; i < tensor.rank(); ++i) {
    shape.push_back(static_cast<std::size_t>(tensor.dim(i)));
    strides.push_back(tensor.stride(i));
  }
  const bool on_card = place.device == Device::cuda;
  return nb::cast(nb::ndarray<Framework...>(tensor.raw(), shape.size(), shape.data(), Held::hold(tensor, place.stream),
                                            strides.data(), dtype_to(tensor.dtype(), kind),
                                            on_card ? nb::device::cuda::value : nb::device::cpu::value, place.index));
}

// A result on a card, for frameworks that say on which stream they will read it.
class CardArray {
 public:
  CardArray(Tensor tensor, int index) : tensor_(std::move(tensor)), index_(index) {}

  nb::tuple device() const { return nb::make_tuple(nb::device::cuda::value, index_); }

  // Streams as the standard has them: none means the default one, -1 that no order is wanted.
  nb::object dlpack(std::optional<std::int64_t> stream) const {
    const auto reader = static_cast<Stream>(stream.value_or(1));
    if (stream == 0) throw nb::value_error("stream 0 has two meanings; 1 is the default stream, 2 that of the thread");
    if (stream == -1) return share<>(tensor_, Kind::dlpack, {Device::cuda, index_, 0});
    Memory& memory = *tensor_.memory();
    with_streams(memory, [&]<Device D>() { Streams<D>::precede(memory, reader); });
    return share<>(tensor_, Kind::dlpack, {Device::cuda, index_, reader});
  }

 private:
  Tensor tensor_;
  int index_;
};

}  // namespace

Tensor tensor_from(nb::handle object, const char* name, const Home& home) {
  Array input;
  const bool exchanged = import(object, home, input);
  if (!exchanged) input = integers_of(object, name);
  check_home(input, name, home);
  if (input.ndim() > static_cast<std::size_t>(Shape::kMaxRank))
    throw nb::value_error(
        fmt::format("{} has {} axes, at most {} are possible", name, input.ndim(), Shape::kMaxRank).c_str());
  const std::span shape(input.shape_ptr(), input.ndim()), strides(input.stride_ptr(), input.ndim());
  const DType dtype = exchanged ? dtype_from(input.dtype(), name) : DType::bf16;
  void* const data = const_cast<void*>(input.data());
  const Tensor tensor =
      Tensor::wrap(data, Shape(shape), strides, dtype, std::shared_ptr<void>(new Array(std::move(input)), release));
  return home.place.device == Device::cpu ? tensor : tensor.in(home.memory);
}

nb::object array_from(const Tensor& tensor, Kind kind, const Place& place) {
  if (!tensor.defined()) return nb::none();
  if (place.device == Device::cpu)
    return kind == Kind::numpy ? share<nb::numpy>(tensor, kind, place) : share<nb::array_api>(tensor, kind, place);
  return place.stream != 0 ? share<>(tensor, kind, place) : nb::cast(CardArray(tensor, place.index));
}

void bind_arrays(nb::module_& module) {
  nb::class_<CardArray>(module, "CardArray")
      .def("__dlpack_device__", &CardArray::device)
      .def(
          "__dlpack__",
          [](const CardArray& array, std::optional<std::int64_t> stream, nb::handle, nb::handle, nb::handle copy) {
            if (!copy.is_none() && nb::cast<bool>(copy)) throw nb::buffer_error("fovea makes no copy of its results");
            return array.dlpack(stream);
          },
          nb::kw_only(), nb::arg("stream").none() = nb::none(), nb::arg("max_version").none() = nb::none(),
          nb::arg("dl_device").none() = nb::none(), nb::arg("copy").none() = nb::none());
}

}  // namespace fovea::python
