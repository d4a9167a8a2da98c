#include "tensor/droppable.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstddef>

namespace fovea {

Droppable::Droppable(std::size_t bytes) : bytes_(std::max<std::size_t>(bytes, 1)) {
  void* const pages = ::mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (pages == MAP_FAILED)
    fail(ErrorCode::out_of_memory, "no room for " + std::to_string(bytes_ >> 20) + " MB of weights");
  pages_ = std::shared_ptr<void>(pages, [size = bytes_](void* p) { ::munmap(p, size); });
}

Tensor Droppable::tensor(std::size_t begin, const Shape& shape, DType dtype) const {
  return Tensor::wrap(static_cast<std::byte*>(pages_.get()) + begin, shape, dtype, pages_);
}

void Droppable::drop() const { ::madvise(pages_.get(), bytes_, MADV_DONTNEED); }

}  // namespace fovea
