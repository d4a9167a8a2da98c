#pragma once

#include <array>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "fovea/context.h"
#include "fovea/dtype.h"
#include "fovea/export.h"
#include "fovea/shape.h"

namespace fovea {

// A strided view of shared storage. Copying a Tensor copies the view, not the data.
class FOVEA_EXPORT Tensor {
 public:
  Tensor() = default;  // undefined: no storage

  static Tensor empty(const Context& context, const Shape& shape, DType dtype = DType::f32,
                      Lifetime lifetime = Lifetime::step);
  static Tensor zeros(const Context& context, const Shape& shape, DType dtype = DType::f32,
                      Lifetime lifetime = Lifetime::step);
  template <class T>
  static Tensor from(const Context& context, const Shape& shape, std::span<const T> values,
                     Lifetime lifetime = Lifetime::step);
  // Wraps memory of the host owned by someone else; `owner` keeps it alive.
  static Tensor wrap(void* data, const Shape& shape, DType dtype, std::shared_ptr<void> owner = nullptr);
  // The same with strides in elements, one for each axis: any sign, also 0.
  static Tensor wrap(void* data, const Shape& shape, std::span<const std::int64_t> strides, DType dtype,
                     std::shared_ptr<void> owner = nullptr);
  // The same tensor for data that lies in another memory.
  Tensor in(std::shared_ptr<Memory> memory) const;

  bool defined() const { return data_ != nullptr || numel_known_empty_; }
  const Shape& shape() const { return shape_; }
  int rank() const { return shape_.rank(); }
  std::int64_t dim(int i) const { return shape_.dim(i); }
  std::int64_t stride(int i) const {
    return strides_[static_cast<std::size_t>(i < 0 ? i + rank() : i)];
  }  // in elements
  std::int64_t numel() const { return shape_.numel(); }
  std::size_t bytes() const { return static_cast<std::size_t>(numel()) * size_of(dtype_); }
  DType dtype() const { return dtype_; }
  bool is_contiguous() const;
  bool is_shared() const;  // does another Tensor, or an owner outside, see the same storage?
  Device device() const { return memory()->device(); }
  const std::shared_ptr<Memory>& memory() const;  // what the data lies in

  void* raw() const { return data_; }
  template <class T>
  T* data() const;  // refuses the wrong type

  // Views. None of them copies.
  Tensor reshape(std::initializer_list<std::int64_t> dims) const;  // one size may be -1; refuses what would need a copy
  Tensor reshape(const Shape& shape) const;
  Tensor transpose(int a, int b) const;
  Tensor slice(int axis, std::int64_t begin, std::int64_t end) const;
  Tensor select(int axis, std::int64_t index) const;  // drops the axis

  // Copies.
  Tensor contiguous(const Context& context) const;  // itself when it already is
  Tensor clone(const Context& context, Lifetime lifetime = Lifetime::step) const;
  Tensor to(const Context& context, DType dtype) const;  // itself when it already is
  void copy_from(const Tensor& source) const;            // same shape, any device; converts the dtype
  void fill(double value) const;

  template <class T>
  std::vector<T> to_vector() const;  // in row-major order, converted to T
  double item() const;               // the value of a tensor with one element

 private:
  struct Storage;

  std::shared_ptr<const Storage> storage_;  // null: nothing, or borrowed from an owner that lives long enough
  void* data_ = nullptr;
  bool numel_known_empty_ = false;  // an empty tensor has no data but is defined
  DType dtype_ = DType::f32;
  Shape shape_;
  std::array<std::int64_t, Shape::kMaxRank> strides_{};
};

template <class T>
T* Tensor::data() const {
  if (dtype_of<T> != dtype_)
    fail(ErrorCode::usage,
         "tensor holds " + std::string(name_of(dtype_)) + ", not " + std::string(name_of(dtype_of<T>)));
  return static_cast<T*>(data_);
}

template <class T>
Tensor Tensor::from(const Context& context, const Shape& shape, std::span<const T> values, Lifetime lifetime) {
  if (static_cast<std::int64_t>(values.size()) != shape.numel())
    fail(ErrorCode::shape, std::to_string(values.size()) + " values for a tensor of shape " + shape.text());
  Tensor out = empty(context, shape, dtype_of<T>, lifetime);
  if (!values.empty()) out.memory()->write(out.raw(), values.data(), values.size_bytes());
  return out;
}

}  // namespace fovea
