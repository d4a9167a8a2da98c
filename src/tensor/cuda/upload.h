#pragma once

#include <span>
#include <vector>

#include "core/cuda/card_memory.h"
#include "fovea/tensor.h"

namespace fovea::device {

// A list of the host on the card, for the length of a kernel.
template <class T>
class Uploaded {
 public:
  Uploaded(const Context& context, std::span<const T> list)
      : bytes_(Tensor::empty(context, {static_cast<std::int64_t>(list.size_bytes())}, DType::u8, Lifetime::scratch)),
        size_(static_cast<std::int64_t>(list.size())) {
    if (!list.empty()) context.memory()->write(bytes_.raw(), list.data(), list.size_bytes());
  }
  const T* data() const { return static_cast<const T*>(bytes_.raw()); }
  std::int64_t size() const { return size_; }

 private:
  Tensor bytes_;
  std::int64_t size_;
};

template <class T>
Uploaded<T> upload(const Context& context, const std::vector<T>& list) {
  return Uploaded<T>(context, list);
}
template <class T>
Uploaded<T> upload(const Context& context, std::span<const T> list) {
  return Uploaded<T>(context, list);
}

// The first element of a tensor, waited for: what a kernel returns to the host. visit_device counts it as a read.
template <class T>
T answer(const Context& context, const Tensor& t) {
  T value{};
  card_memory(*context.memory()).fetch(&value, t.raw(), sizeof(T));
  return value;
}

}  // namespace fovea::device
