#include "fovea/tensor.h"

#include <algorithm>

namespace fovea {
namespace {

std::array<std::int64_t, Shape::kMaxRank> row_major(const Shape& shape) {
  std::array<std::int64_t, Shape::kMaxRank> strides{};
  std::int64_t step = 1;
  for (int i = shape.rank() - 1; i >= 0; --i) {
    strides[static_cast<std::size_t>(i)] = step;
    step *= shape.dim(i);
  }
  return strides;
}

// Replaces a -1 by what the other sizes leave.
Shape resolve(const Shape& have, std::span<const std::int64_t> wanted) {
  std::array<std::int64_t, Shape::kMaxRank> dims{};
  if (wanted.size() > dims.size()) return Shape(wanted);  // refuses
  std::int64_t known = 1;
  int open = -1;
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    dims[i] = wanted[i];
    if (wanted[i] < 0)
      open = static_cast<int>(i);
    else if (__builtin_mul_overflow(known, wanted[i], &known))
      fail(ErrorCode::shape, "tensor size overflows 64 bits");
  }
  if (open >= 0) dims[static_cast<std::size_t>(open)] = known == 0 ? 0 : have.numel() / known;
  return Shape(std::span<const std::int64_t>(dims.data(), wanted.size()));
}

int axis_index(const Tensor& t, int axis) {
  const int i = axis < 0 ? axis + t.rank() : axis;
  if (i < 0 || i >= t.rank())
    fail(ErrorCode::shape, "axis " + std::to_string(axis) + " of a tensor of shape " + t.shape().text());
  return i;
}

}  // namespace

struct Tensor::Storage {
  std::shared_ptr<Memory> memory;        // of borrowed data
  std::shared_ptr<void> owner;           // of borrowed data
  std::shared_ptr<Allocator> allocator;  // of a block
  Allocator::Block block;

  Storage(std::shared_ptr<Memory> memory, std::shared_ptr<void> owner)
      : memory(std::move(memory)), owner(std::move(owner)) {}
  Storage(std::shared_ptr<Allocator> from, std::size_t bytes, Lifetime lifetime)
      : allocator(std::move(from)), block(allocator->allocate(bytes, lifetime)) {}
  ~Storage() {
    if (allocator != nullptr) allocator->release(block);
  }
  Storage(const Storage&) = delete;
  Storage& operator=(const Storage&) = delete;
};

Tensor Tensor::empty(const Context& context, const Shape& shape, DType dtype, Lifetime lifetime) {
  Tensor t;
  t.shape_ = shape;
  t.dtype_ = dtype;
  t.strides_ = row_major(shape);
  std::size_t bytes = 0;
  if (__builtin_mul_overflow(static_cast<std::size_t>(shape.numel()), size_of(dtype), &bytes))
    fail(ErrorCode::out_of_memory, "a tensor of shape " + shape.text() + " does not fit in memory");
  t.numel_known_empty_ = bytes == 0;
  if (bytes == 0) return t;
  t.storage_ = std::make_shared<const Storage>(context.allocator(), bytes, lifetime);
  t.data_ = t.storage_->block.data;
  return t;
}

Tensor Tensor::zeros(const Context& context, const Shape& shape, DType dtype, Lifetime lifetime) {
  Tensor t = empty(context, shape, dtype, lifetime);
  t.fill(0.0);
  return t;
}

Tensor Tensor::wrap(void* data, const Shape& shape, DType dtype, std::shared_ptr<void> owner) {
  Tensor t;
  if (owner != nullptr) t.storage_ = std::make_shared<const Storage>(borrowed_memory(), std::move(owner));
  t.data_ = data;
  t.numel_known_empty_ = shape.numel() == 0;
  t.dtype_ = dtype;
  t.shape_ = shape;
  t.strides_ = row_major(shape);
  return t;
}

Tensor Tensor::wrap(void* data, const Shape& shape, std::span<const std::int64_t> strides, DType dtype,
                    std::shared_ptr<void> owner) {
  if (std::ssize(strides) != shape.rank())
    fail(ErrorCode::shape, std::to_string(strides.size()) + " strides for a tensor of shape " + shape.text());
  Tensor t = wrap(data, shape, dtype, std::move(owner));
  std::copy(strides.begin(), strides.end(), t.strides_.begin());
  return t;
}

Tensor Tensor::in(std::shared_ptr<Memory> memory) const {
  Tensor t = *this;
  t.storage_ = std::make_shared<const Storage>(std::move(memory), std::const_pointer_cast<Storage>(storage_));
  return t;
}

const std::shared_ptr<Memory>& Tensor::memory() const {
  if (storage_ == nullptr) return borrowed_memory();
  return storage_->allocator != nullptr ? storage_->allocator->memory() : storage_->memory;
}

bool Tensor::is_shared() const {
  return data_ != nullptr && (storage_.use_count() != 1 || storage_->allocator == nullptr);
}

bool Tensor::is_contiguous() const {
  std::int64_t step = 1;
  for (int i = rank() - 1; i >= 0; --i) {
    if (dim(i) != 1 && stride(i) != step) return false;
    step *= dim(i);
  }
  return true;
}

Tensor Tensor::reshape(std::initializer_list<std::int64_t> dims) const {
  return reshape(resolve(shape_, {dims.begin(), dims.size()}));
}

Tensor Tensor::reshape(const Shape& shape) const {
  if (shape.numel() != numel()) fail(ErrorCode::shape, "cannot reshape " + shape_.text() + " to " + shape.text());
  if (!is_contiguous())
    fail(ErrorCode::shape, "reshape of a strided view of shape " + shape_.text() + "; copy it first");
  Tensor t = *this;
  t.shape_ = shape;
  t.strides_ = row_major(shape);
  return t;
}

Tensor Tensor::transpose(int a, int b) const {
  const int i = axis_index(*this, a), j = axis_index(*this, b);
  Tensor t = *this;
  t.shape_.set(i, dim(j));
  t.shape_.set(j, dim(i));
  std::swap(t.strides_[static_cast<std::size_t>(i)], t.strides_[static_cast<std::size_t>(j)]);
  return t;
}

Tensor Tensor::slice(int axis, std::int64_t begin, std::int64_t end) const {
  const int i = axis_index(*this, axis);
  if (begin < 0 || end < begin || end > dim(i))
    fail(ErrorCode::shape, "slice [" + std::to_string(begin) + ", " + std::to_string(end) + ") of axis " +
                               std::to_string(axis) + " of a tensor of shape " + shape_.text());
  Tensor t = *this;
  t.shape_.set(i, end - begin);
  t.numel_known_empty_ = t.shape_.numel() == 0;
  if (data_ != nullptr)
    t.data_ = static_cast<std::byte*>(data_) + begin * stride(i) * static_cast<std::int64_t>(size_of(dtype_));
  return t;
}

Tensor Tensor::select(int axis, std::int64_t index) const {
  const int i = axis_index(*this, axis);
  Tensor t = slice(i, index, index + 1);
  std::array<std::int64_t, Shape::kMaxRank> dims{};
  int kept = 0;
  for (int k = 0; k < rank(); ++k) {
    if (k == i) continue;
    dims[static_cast<std::size_t>(kept)] = dim(k);
    t.strides_[static_cast<std::size_t>(kept++)] = stride(k);
  }
  t.shape_ = Shape(std::span<const std::int64_t>(dims.data(), static_cast<std::size_t>(kept)));
  return t;
}

}  // namespace fovea
