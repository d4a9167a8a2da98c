#include "tensor/copy_kernels.h"

#include "core/cuda/card_memory.h"
#include "tensor/cuda/map.cuh"
#include "tensor/cuda/transpose.cuh"

namespace fovea {
namespace {

using namespace device;  // NOLINT

struct Same {
  template <class R>
  __device__ R operator()(R x) const {
    return x;
  }
};

// Whole numbers: as i64, or as the double that a float is.
template <class V>
struct Numbers {
  void* data;
  DType dtype;

  __device__ V load(std::int64_t i) const {
    switch (dtype) {
      case DType::i32: return static_cast<V>(static_cast<const std::int32_t*>(data)[i]);
      case DType::i64: return static_cast<V>(static_cast<const std::int64_t*>(data)[i]);
      case DType::u8: return static_cast<V>(static_cast<const std::uint8_t*>(data)[i]);
      default: return static_cast<V>(Elements<double>{data, dtype}[i]);
    }
  }
  __device__ void store(std::int64_t i, V value) const {
    switch (dtype) {
      case DType::i32: static_cast<std::int32_t*>(data)[i] = static_cast<std::int32_t>(value); return;
      case DType::i64: static_cast<std::int64_t*>(data)[i] = static_cast<std::int64_t>(value); return;
      case DType::u8: static_cast<std::uint8_t*>(data)[i] = static_cast<std::uint8_t>(value); return;
      case DType::f64: static_cast<double*>(data)[i] = static_cast<double>(value); return;
      default: Elements<float>{data, dtype}.put(i, static_cast<float>(value));
    }
  }
};

template <class V>
void convert(const Queue& queue, const Tensor& to, const Tensor& from) {
  const MapPlan plan(std::array<Tensor, 2>{to, from});
  const Numbers<V> target{to.raw(), to.dtype()}, source{from.raw(), from.dtype()};
  each(queue, plan.count, [=] __device__(std::int64_t i) {
    std::int64_t at[2];
    plan.place(i, at);
    target.store(at[0], source.load(at[1]));
  });
}

template <class Word>
void move(const Queue& queue, const MapPlan& plan, void* to, const void* from) {
  if (const std::optional<TransposePlan> transposed = transpose_of(plan))
    return transpose<Word>(queue, *transposed, to, from);
  Word* const target = static_cast<Word*>(to);
  const Word* const source = static_cast<const Word*>(from);
  each(queue, plan.count, [=] __device__(std::int64_t i) {
    std::int64_t at[2];
    plan.place(i, at);
    target[at[0]] = source[at[1]];
  });
}

// Of one dtype, by size alone: 16 bytes at once where rows allow it.
void move(const Queue& queue, const Tensor& to, const Tensor& from) {
  if (to.is_contiguous() && from.is_contiguous())
    return check_cuda(cudaMemcpyAsync(to.raw(), from.raw(), to.bytes(), cudaMemcpyDefault, queue.stream), "a copy");
  MapPlan plan(std::array<Tensor, 2>{to, from});
  const auto size = static_cast<int>(size_of(to.dtype()));
  if (plan.has_packs && plan.stride[1][plan.rank - 1] == 1 && size > 1) {
    plan.widen(static_cast<int>(sizeof(uint4)) / size);
    return move<uint4>(queue, plan, to.raw(), from.raw());
  }
  switch (size) {
    case 1: return move<std::uint8_t>(queue, plan, to.raw(), from.raw());
    case 2: return move<std::uint16_t>(queue, plan, to.raw(), from.raw());
    case 4: return move<std::uint32_t>(queue, plan, to.raw(), from.raw());
    default: return move<std::uint64_t>(queue, plan, to.raw(), from.raw());
  }
}

void copy_on(const Queue& queue, const Tensor& to, const Tensor& from) {
  if (to.dtype() == from.dtype()) return move(queue, to, from);
  if (!is_float(from.dtype())) return convert<std::int64_t>(queue, to, from);
  if (!is_float(to.dtype())) return convert<double>(queue, to, from);
  if (to.dtype() == DType::f64 || from.dtype() == DType::f64) return map<double>(queue, Same(), to, from);
  map<float>(queue, Same(), to, from);
}

struct Constant {
  double value;
  __device__ double operator()() const { return value; }
};

}  // namespace

template <>
void kernels::copy<Device::cuda>(const CopyTensors& io) {
  const CardMemory &to = card_memory(*io.to.memory()), &from = card_memory(*io.from.memory());
  from.precede(to.stream());
  copy_on(Queue(*io.to.memory()), io.to, io.from);
  to.precede(from.stream());  // what was copied may be given back
}

template <>
void kernels::fill<Device::cuda>(const FillTensor& io) {
  if (io.to.numel() == 0) return;
  const Queue queue(*io.to.memory());
  if (io.value == 0.0 && !std::signbit(io.value) && io.to.is_contiguous())
    return check_cuda(cudaMemsetAsync(io.to.raw(), 0, io.to.bytes(), queue.stream), "filling");
  if (is_float(io.to.dtype())) return map<double>(queue, Constant{io.value}, io.to);
  const MapPlan plan(std::array<Tensor, 1>{io.to});
  const Numbers<double> target{io.to.raw(), io.to.dtype()};
  const double value = io.value;
  each(queue, plan.count, [=] __device__(std::int64_t i) {
    std::int64_t at[1];
    plan.place(i, at);
    target.store(at[0], value);
  });
}

}  // namespace fovea
