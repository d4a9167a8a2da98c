#pragma once

#include "ops/cuda/split.cuh"
#include "tensor/cuda/elements.cuh"

namespace fovea::device {

// Rows of tensors (b, rows, heads, d) of one dtype with a dense last axis, as words.
struct WordRows {
  std::byte* data = nullptr;
  std::int64_t item = 0, row = 0, head = 0;  // strides in bytes

  WordRows() = default;
  explicit WordRows(const Tensor& t) : data(static_cast<std::byte*>(t.raw())) {
    const auto size = static_cast<std::int64_t>(size_of(t.dtype()));
    item = t.stride(0) * size, row = t.stride(1) * size, head = t.stride(2) * size;
  }
  template <class Word>
  __device__ Word& at(std::int64_t i, std::int64_t r, std::int64_t h, std::int64_t word) const {
    return reinterpret_cast<Word*>(data + i * item + r * row + h * head)[word];
  }
  std::int64_t alignment() const {  // all places of rows are multiples of its lowest bit
    return static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(data)) | item | row | head;
  }
};

// f<Word>(words of a row) with the longest words that rows of so many bytes at such places have.
template <class F>
void visit_words(std::int64_t alignment, std::int64_t bytes, const F& f) {
  alignment |= bytes;
  if (alignment % 16 == 0) return f.template operator()<uint4>(bytes / 16);
  if (alignment % 4 == 0) return f.template operator()<std::uint32_t>(bytes / 4);
  if (alignment % 2 == 0) return f.template operator()<std::uint16_t>(bytes / 2);
  f.template operator()<std::uint8_t>(bytes);
}

}  // namespace fovea::device
