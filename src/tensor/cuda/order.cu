#include "tensor/cuda/order.h"

#include <bit>
#include <cub/device/device_radix_sort.cuh>
#include <cub/device/device_scan.cuh>

#include "tensor/cuda/elements.cuh"

namespace fovea::device {
namespace {

using Code = std::uint64_t;

// CUB is asked twice: how much scratch it wants, then for the work.
template <class Run>
void with_scratch(const Context& context, const char* what, const Run& run) {
  std::size_t bytes = 0;
  check_cuda(run(nullptr, bytes), what);
  const DeviceScratch scratch(launch_of(context), bytes + 1);
  check_cuda(run(scratch.data(), bytes), what);
}

// Codes and places, twice: what is sorted goes from one to the other.
struct CodedPlaces {
  DeviceScratch memory;
  cub::DoubleBuffer<Code> codes;
  cub::DoubleBuffer<std::int32_t> places;
  std::int64_t count;

  CodedPlaces(const Context& context, std::int64_t count)
      : memory(launch_of(context), static_cast<std::size_t>(count) * 2 * (sizeof(Code) + sizeof(std::int32_t))),
        codes(static_cast<Code*>(memory.data()), static_cast<Code*>(memory.data()) + count),
        places(reinterpret_cast<std::int32_t*>(static_cast<Code*>(memory.data()) + 2 * count),
               reinterpret_cast<std::int32_t*>(static_cast<Code*>(memory.data()) + 2 * count) + count),
        count(count) {
    if (count > INT32_MAX) fail(ErrorCode::unsupported, "sorting more than 2^31 elements", "device", "a smaller batch");
  }
  // By the lowest bits of the codes.
  void sort(const Context& context, int bits) {
    with_scratch(context, "sorting", [&](void* scratch, std::size_t& bytes) {
      return cub::DeviceRadixSort::SortPairs(scratch, bytes, codes, places, static_cast<std::int32_t>(count), 0, bits,
                                             stream_of(context));
    });
  }
};

// Numbers as codes of the same order.
__device__ inline Code code_of(std::int32_t x) { return static_cast<std::uint32_t>(x) ^ 0x80000000u; }
__device__ inline Code code_of(std::int64_t x) { return static_cast<Code>(x) ^ 0x8000000000000000u; }
__device__ inline Code code_of(float x) {
  const std::uint32_t bits = __float_as_uint(x != x ? __uint_as_float(0x7fc00000u) : x + 0.0f);  // one NaN, one zero
  return bits >> 31 != 0 ? static_cast<std::uint32_t>(~bits) : bits | 0x80000000u;
}
__device__ inline Code code_of(double x) {
  const auto bits =
      static_cast<Code>(__double_as_longlong(x != x ? __longlong_as_double(0x7ff8000000000000) : x + 0.0));
  return bits >> 63 != 0 ? ~bits : bits | 0x8000000000000000u;
}

constexpr int kHalf = 32;

// Codes of 32 bits carry their row above them, and one sort does; those of 64 are sorted first, and then by rows.
template <class Key>
Tensor order_of(const Context& context, const Tensor& keys, bool descending) {
  const std::int64_t length = keys.dim(-1), count = keys.numel();
  const int row_bits = std::bit_width(static_cast<std::uint64_t>(count / length - 1));
  CodedPlaces sorted(context, count);
  const Key* const from = keys.data<Key>();
  Code* codes = sorted.codes.Current();
  std::int32_t* places = sorted.places.Current();
  each(context, count, [=] __device__(std::int64_t i) {
    Code code = code_of(from[i]);
    if (sizeof(Key) == 4)
      code = ((descending ? ~code & 0xffffffffu : code)) | static_cast<Code>(i / length) << kHalf;
    else if (descending)
      code = ~code;
    codes[i] = code;
    places[i] = static_cast<std::int32_t>(i);
  });
  sorted.sort(context, sizeof(Key) == 4 ? kHalf + row_bits : 2 * kHalf);
  if (sizeof(Key) == 8 && row_bits > 0) {
    codes = sorted.codes.Current();
    places = sorted.places.Current();
    each(context, count, [=] __device__(std::int64_t i) { codes[i] = static_cast<Code>(places[i] / length); });
    sorted.sort(context, row_bits);
  }
  const Tensor order = Tensor::empty(context, keys.shape(), DType::i32);
  std::int32_t* const to = pointer<std::int32_t>(order);
  const std::int32_t* const found = sorted.places.Current();
  each(context, count, [=] __device__(std::int64_t i) { to[i] = static_cast<std::int32_t>(found[i] % length); });
  return order;
}

// The first place of each target among sorted ones.
void find_begins(const Context& context, const Groups& groups) {
  const std::int32_t* const sorted = pointer<std::int32_t>(groups.target);
  std::int32_t* const begin = pointer<std::int32_t>(groups.begin);
  const std::int64_t count = groups.count;
  each(context, groups.targets + 1, [=] __device__(std::int64_t t) {
    std::int64_t low = 0, high = count;
    while (low < high) {
      const std::int64_t middle = (low + high) / 2;
      if (sorted[middle] < t)
        low = middle + 1;
      else
        high = middle;
    }
    begin[t] = static_cast<std::int32_t>(low);
  });
}

}  // namespace

Tensor sorted_order(const Context& context, const Tensor& keys, bool descending) {
  if (keys.numel() == 0) return Tensor::empty(context, keys.shape(), DType::i32);
  switch (keys.dtype()) {
    case DType::i32: return order_of<std::int32_t>(context, keys, descending);
    case DType::i64: return order_of<std::int64_t>(context, keys, descending);
    case DType::f64: return order_of<double>(context, keys, descending);
    default: return order_of<float>(context, keys, descending);
  }
}

void exclusive_sums(const Context& context, const RunningSum& io) {
  if (io.from.numel() == 0) return;
  with_scratch(context, "running sums", [&](void* scratch, std::size_t& bytes) {
    return cub::DeviceScan::ExclusiveSum(scratch, bytes, io.from.data<std::int64_t>(), io.to.data<std::int64_t>(),
                                         io.from.numel(), stream_of(context));
  });
}

Groups groups_of(const Context& context, const Tensor& keys, std::int64_t targets) {
  const std::int64_t count = keys.numel();
  const auto list = [&](std::int64_t n) { return Tensor::empty(context, {n}, DType::i32, Lifetime::scratch); };
  Groups groups{list(count), list(count), list(targets + 1), count, targets};
  if (count > 0) {
    CodedPlaces sorted(context, count);
    Code* codes = sorted.codes.Current();
    std::int32_t* places = sorted.places.Current();
    const std::int32_t* const from = pointer<std::int32_t>(keys);
    each(context, count, [=] __device__(std::int64_t i) {
      codes[i] = static_cast<Code>(from[i] >= 0 && from[i] < targets ? from[i] : targets);
      places[i] = static_cast<std::int32_t>(i);
    });
    sorted.sort(context, std::bit_width(static_cast<std::uint64_t>(targets)));
    codes = sorted.codes.Current();
    places = sorted.places.Current();
    std::int32_t *const order = pointer<std::int32_t>(groups.order), *const target =
                                                                         pointer<std::int32_t>(groups.target);
    each(context, count, [=] __device__(std::int64_t i) {
      order[i] = places[i];
      target[i] = static_cast<std::int32_t>(codes[i]);
    });
  }
  find_begins(context, groups);
  return groups;
}

}  // namespace fovea::device
