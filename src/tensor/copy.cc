#include <algorithm>
#include <cstring>

#include "fovea/tensor.h"

namespace fovea {
namespace {

// Calls row(offset_a, offset_b) for every innermost row of two tensors of one shape; offsets in elements.
template <class Row>
void for_each_row(const Tensor& a, const Tensor& b, Row&& row) {
  if (a.numel() == 0) return;
  const int outer = std::max(a.rank() - 1, 0);
  std::array<std::int64_t, Shape::kMaxRank> index{};
  std::int64_t offset_a = 0, offset_b = 0;
  while (true) {
    row(offset_a, offset_b);
    int axis = outer - 1;
    for (; axis >= 0; --axis) {
      auto& i = index[static_cast<std::size_t>(axis)];
      offset_a += a.stride(axis);
      offset_b += b.stride(axis);
      if (++i < a.dim(axis)) break;
      offset_a -= i * a.stride(axis);
      offset_b -= i * b.stride(axis);
      i = 0;
    }
    if (axis < 0) return;
  }
}

template <class To, class From>
To convert(From value) {
  if constexpr (std::is_same_v<To, From>) return value;
  else if constexpr (std::is_same_v<To, bf16> || std::is_same_v<To, f16>) return To(static_cast<float>(value));
  else return static_cast<To>(value);
}

template <class To, class From>
void copy_typed(const Tensor& to, const Tensor& from) {
  const bool scalar = to.rank() == 0;
  const std::int64_t count = scalar ? 1 : to.dim(-1);
  const std::int64_t step_to = scalar ? 1 : to.stride(-1), step_from = scalar ? 1 : from.stride(-1);
  for_each_row(to, from, [&](std::int64_t offset_to, std::int64_t offset_from) {
    To* out = to.data<To>() + offset_to;
    const From* in = from.data<From>() + offset_from;
    if constexpr (std::is_same_v<To, From>) {
      if (step_to == 1 && step_from == 1) {
        std::memcpy(out, in, static_cast<std::size_t>(count) * sizeof(To));
        return;
      }
    }
    for (std::int64_t i = 0; i < count; ++i) out[i * step_to] = convert<To>(in[i * step_from]);
  });
}

}  // namespace

void Tensor::copy_from(const Tensor& source) const {
  if (source.shape() != shape())
    fail(ErrorCode::shape, "copy of shape " + source.shape().text() + " into " + shape().text());
  if (numel() == 0) return;
  visit(dtype_, [&]<class To>() { visit(source.dtype(), [&]<class From>() { copy_typed<To, From>(*this, source); }); });
}

void Tensor::fill(double value) const {
  if (numel() == 0) return;
  visit(dtype_, [&]<class T>() {
    for_each_row(*this, *this, [&](std::int64_t offset, std::int64_t) {
      T* out = data<T>() + offset;
      const std::int64_t count = rank() == 0 ? 1 : dim(-1), step = rank() == 0 ? 1 : stride(-1);
      for (std::int64_t i = 0; i < count; ++i) out[i * step] = convert<T>(value);
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
