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
void copy_stretch(To* to, const From* from, const Stretch& s) {
  if constexpr (std::is_same_v<To, From>) {
    if (s.dense()) {
      std::memcpy(to, from, static_cast<std::size_t>(s.count) * sizeof(To));
      return;
    }
  }
  if (s.dense()) {
    for (std::int64_t i = 0; i < s.count; ++i) to[i] = convert<To>(from[i]);
  } else {
    for (std::int64_t i = 0; i < s.count; ++i) to[i * s.to_step] = convert<To>(from[i * s.from_step]);
  }
}

}  // namespace

void Tensor::copy_from(const Tensor& source) const {
  if (source.shape() != shape())
    fail(ErrorCode::shape, "copy of shape " + source.shape().text() + " into " + shape().text());
  const Walk walk(*this, source);
  visit(dtype_, [&]<class To>() {
    visit(source.dtype(), [&]<class From>() {
      To* to = data<To>();
      const From* from = source.data<From>();
      walk.run(copy_threads(), [&](const Stretch& s) { copy_stretch(to + s.to, from + s.from, s); });
    });
  });
}

void Tensor::fill(double value) const {
  const Walk walk(*this, *this);
  visit(dtype_, [&]<class T>() {
    T* out = data<T>();
    const T filling = convert<T>(value);
    walk.run(copy_threads(), [&](const Stretch& s) {
      if (s.dense())
        std::fill_n(out + s.to, s.count, filling);
      else
        for (std::int64_t i = 0; i < s.count; ++i) out[s.to + i * s.to_step] = filling;
    });
  });
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
