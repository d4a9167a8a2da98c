#pragma once

#include "fovea/tensor.h"

namespace fovea {

// Memory of the host for tensors whose numbers come and go: while they are dropped the system has its pages back, and
// what is written to them later stands where it stood.
class Droppable {
 public:
  explicit Droppable(std::size_t bytes);

  // Of the numbers from byte `begin` on. It keeps the addresses.
  Tensor tensor(std::size_t begin, const Shape& shape, DType dtype) const;
  void drop() const;  // all of them; they read as 0 from now on
  std::size_t bytes() const { return bytes_; }

 private:
  std::size_t bytes_;
  std::shared_ptr<void> pages_;
};

}  // namespace fovea
