#include <omp.h>

#include <algorithm>
#include <cstring>

#include "fovea/tensor.h"
#include "tensor/walk.h"

namespace fovea {
namespace {

template <class To, class From>
To convert(From value) {
  if constexpr (std::is_same_v<To, From>)
    return value;
  else if constexpr (std::is_same_v<To, bf16> || std::is_same_v<To, f16>)
    return To(static_cast<float>(value));
  else
    return static_cast<To>(value);
}

// Copies have no context: they use the threads the last one was given, and one inside a parallel region.
int copy_threads() { return omp_in_parallel() ? 1 : omp_get_max_threads(); }

template <class To, class From>
void copy_patch(void* to_begin, const void* from_begin, const Patch& patch) {
  const Patch p = patch;  // a copy: no store below can change it
  for (std::int64_t line = 0; line < p.lines; ++line) {
    To* to = static_cast<To*>(to_begin) + p.to + line * p.to_line;
    const From* from = static_cast<const From*>(from_begin) + p.from + line * p.from_line;
    if (!p.dense())
      for (std::int64_t i = 0; i < p.count; ++i) to[i * p.to_step] = convert<To>(from[i * p.from_step]);
    else if constexpr (std::is_same_v<To, From>)
      std::memcpy(to, from, static_cast<std::size_t>(p.count) * sizeof(To));
    else
      for (std::int64_t i = 0; i < p.count; ++i) to[i] = convert<To>(from[i]);
  }
}

template <class T>
void fill_patch(void* begin, const void* filling, const Patch& patch) {
  const Patch p = patch;
  const T value = convert<T>(*static_cast<const double*>(filling));
  for (std::int64_t line = 0; line < p.lines; ++line) {
    T* to = static_cast<T*>(begin) + p.to + line * p.to_line;
    if (p.dense())
      std::fill_n(to, p.count, value);
    else
      for (std::int64_t i = 0; i < p.count; ++i) to[i * p.to_step] = value;
  }
}

}  // namespace

void Tensor::copy_from(const Tensor& source) const {
  if (source.shape() != shape())
    fail(ErrorCode::shape, "copy of shape " + source.shape().text() + " into " + shape().text());
  const PatchBody body = visit(dtype_, [&]<class To>() {
    return visit(source.dtype(), [&]<class From>() -> PatchBody { return copy_patch<To, From>; });
  });
  Walk(*this, source).run(copy_threads(), body, raw(), source.raw());
}

void Tensor::fill(double value) const {
  const PatchBody body = visit(dtype_, [&]<class T>() -> PatchBody { return fill_patch<T>; });
  Walk(*this, *this).run(copy_threads(), body, raw(), &value);
}

Tensor Tensor::contiguous(const Context& context) const { return is_contiguous() ? *this : clone(context); }

Tensor Tensor::clone(const Context& context, Lifetime lifetime) const {
  Tensor copy = empty(context, shape_, dtype_, lifetime);
  copy.copy_from(*this);
  return copy;
}

Tensor Tensor::to(const Context& context, DType dtype) const {
  if (dtype == dtype_) return *this;
  Tensor copy = empty(context, shape_, dtype);
  copy.copy_from(*this);
  return copy;
}

template <class T>
std::vector<T> Tensor::to_vector() const {
  std::vector<T> values(static_cast<std::size_t>(numel()));
  if (!values.empty()) wrap(values.data(), shape_, dtype_of<T>).copy_from(*this);
  return values;
}

template std::vector<float> Tensor::to_vector() const;
template std::vector<double> Tensor::to_vector() const;
template std::vector<std::int32_t> Tensor::to_vector() const;
template std::vector<std::int64_t> Tensor::to_vector() const;
template std::vector<std::uint8_t> Tensor::to_vector() const;

double Tensor::item() const {
  if (numel() != 1) fail(ErrorCode::shape, "item() of a tensor of shape " + shape_.text());
  return to_vector<double>().front();
}

}  // namespace fovea
