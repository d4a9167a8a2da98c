#include "gemm/packed.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "core/parallel.h"
#include "core/scratch.h"
#include "fovea/zones.h"
#include "gemm/packed_cpu.h"

namespace fovea::gemm {
namespace {

constexpr std::int64_t kPanel = PackedWeight::kPanel;
constexpr std::int64_t kPiece = 128 << 10;  // bytes of weights a thread takes at a time: some 10 us
constexpr float kLargest = 127.0f;

// Columns of a weight, zero beyond the last.
struct Columns {
  const float* data;
  std::int64_t row, column, out;  // strides, and the number of columns

  float at(std::int64_t k, std::int64_t j) const { return j < out ? data[k * row + j * column] : 0.0f; }
};

Columns columns_of(const Tensor& weight) {
  return {weight.data<float>(), weight.stride(0), weight.stride(1), weight.dim(1)};
}

std::int64_t grain(std::int64_t panel_bytes) {
  return std::max<std::int64_t>(1, kPiece / std::max<std::int64_t>(1, panel_bytes));
}

}  // namespace

PackedWeight::PackedWeight(const Context& context, const Tensor& weight, Form form)
    : form_(form), in_(weight.dim(0)), out_(weight.dim(1)), panels_((out_ + kPanel - 1) / kPanel) {
  data_ = Tensor::empty(context, {panels_ * panel_bytes()}, DType::u8, Lifetime::persistent);
  switch (form) {
    case Form::f32: pack_f32(context, weight); break;
    case Form::bf16: pack_bf16(context, weight); break;
    case Form::i8: pack_i8(context, weight); break;
  }
}

std::int64_t PackedWeight::panel_bytes() const {
  return in_ * kPanel * (form_ == Form::f32 ? 4 : form_ == Form::bf16 ? 2 : 1);
}

void PackedWeight::pack_f32(const Context& context, const Tensor& weight) {
  const Columns from = columns_of(weight);
  auto* to = reinterpret_cast<float*>(data_.raw());
  parallel_for(context, panels_, [&](std::int64_t panel) {
    float* out = to + panel * in_ * kPanel;
    for (std::int64_t k = 0; k < in_; ++k)
      for (std::int64_t j = 0; j < kPanel; ++j) *out++ = from.at(k, panel * kPanel + j);
  });
}

void PackedWeight::pack_bf16(const Context& context, const Tensor& weight) {
  const Columns from = columns_of(weight);
  auto* to = reinterpret_cast<std::uint16_t*>(data_.raw());
  parallel_for(context, panels_, [&](std::int64_t panel) {
    std::uint16_t* out = to + panel * in_ * kPanel;
    for (std::int64_t k = 0; k < in_; ++k, out += kPanel)
      for (std::int64_t j = 0; j < kPanel; ++j)  // words of two: outputs i and 16 + i
        out[j % 16 * 2 + j / 16] = bf16(from.at(k, panel * kPanel + j)).bits;
  });
}

void PackedWeight::pack_i8(const Context& context, const Tensor& weight) {
  const Columns from = columns_of(weight);
  scales_ = Tensor::empty(context, {panels_ * kPanel}, DType::f32, Lifetime::persistent);
  auto* to = reinterpret_cast<std::int8_t*>(data_.raw());
  parallel_for(context, panels_, [&](std::int64_t panel) {
    float* scales = scales_.data<float>() + panel * kPanel;
    std::int8_t* out = to + panel * in_ * kPanel;
    for (std::int64_t j = 0; j < kPanel; ++j) {
      float largest = 0.0f, broken = 0.0f;  // not a number where a weight is none
      for (std::int64_t k = 0; k < in_; ++k) {
        const float value = from.at(k, panel * kPanel + j);
        largest = std::max(largest, std::abs(value));
        broken += 0.0f * value;
      }
      scales[j] = largest / kLargest + broken;
      const float inverse = largest > 0.0f ? kLargest / largest : 0.0f;
      for (std::int64_t k = 0; k < in_; ++k)
        out[k * kPanel + j] = static_cast<std::int8_t>(std::lrint(from.at(k, panel * kPanel + j) * inverse));
    }
  });
}

void PackedWeight::multiply(const Context& context, const Tensor& x, const Tensor& bias, const Tensor& y) const {
  const ZoneTimer timer(context.zones(), Zone::gemm);
  const auto kernel = form_ == Form::f32    ? cpu::multiply_f32
                      : form_ == Form::bf16 ? cpu::multiply_bf16
                                            : cpu::multiply_i8;
  const std::int64_t rows = x.dim(0), bytes = panel_bytes();
  const auto* weights = static_cast<const std::uint8_t*>(data_.raw());
  parallel_ranges(context, panels_, grain(bytes), [&](std::int64_t begin, std::int64_t end) {
    float products[kPackedRows * kPanel];
    for (std::int64_t panel = begin; panel < end; ++panel) {
      const std::int64_t first = panel * kPanel, count = std::min(kPanel, out_ - first);
      const cpu::Panel one{weights + panel * bytes,
                           form_ == Form::i8 ? scales_.data<float>() + first : nullptr,
                           x.data<float>(),
                           rows,
                           in_,
                           products};
      kernel(one);
      for (std::int64_t row = 0; row < rows; ++row)
        for (std::int64_t j = 0; j < count; ++j)
          y.data<float>()[row * out_ + first + j] =
              products[row * kPanel + j] + (bias.defined() ? bias.data<float>()[first + j] : 0.0f);
    }
  });
}

PackedWeights::PackedWeights(Form form, const std::vector<Tensor>& parameters) : form_(form) {
  for (const Tensor& p : parameters)
    if (p.rank() == 2 && p.dtype() == DType::f32 && p.numel() > 0) entries_[p.raw()].parameter = p;
}

const PackedWeight* PackedWeights::find(const Context& context, const Tensor& weight) const {
  const auto at = entries_.find(weight.raw());
  if (at == entries_.end() || weight.rank() != 2) return nullptr;
  Entry& entry = at->second;
  const auto same = [&](const Tensor& t) {
    return t.shape() == weight.shape() && t.stride(0) == weight.stride(0) && t.stride(1) == weight.stride(1);
  };
  const bool plain = same(entry.parameter);
  if (!plain && !same(entry.parameter.transpose(0, 1))) return nullptr;
  std::unique_ptr<PackedWeight>& packed = plain ? entry.plain : entry.transposed;
  if (packed == nullptr) packed = std::make_unique<PackedWeight>(context, weight, form_);
  return packed.get();
}

std::size_t PackedWeights::bytes() const {
  std::size_t sum = 0;
  for (const auto& [data, entry] : entries_)
    for (const auto* packed : {entry.plain.get(), entry.transposed.get()})
      if (packed != nullptr) sum += packed->bytes();
  return sum;
}

namespace {
thread_local const PackedWeights* current_weights = nullptr;
}  // namespace

UsePacked::UsePacked(const PackedWeights* weights) : outer_(std::exchange(current_weights, weights)) {}
UsePacked::~UsePacked() { current_weights = outer_; }
const PackedWeights* UsePacked::current() { return current_weights; }

}  // namespace fovea::gemm
