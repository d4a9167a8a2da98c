#include <algorithm>
#include <cmath>

#include "core/parallel.h"
#include "gemm/cpu/packed_panel.h"
#include "gemm/packed_kernels.h"

namespace fovea {
namespace gemm {
namespace {

using kernels::PackedPanels;

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

void pack_f32(const Context& context, const PackedPanels& to_panels, const Tensor& weight) {
  const Columns from = columns_of(weight);
  const std::int64_t in = to_panels.in, panels = to_panels.panels();
  auto* to = reinterpret_cast<float*>(to_panels.data.raw());
  parallel_for(context, panels, [&](std::int64_t panel) {
    float* out = to + panel * in * kPanel;
    for (std::int64_t k = 0; k < in; ++k)
      for (std::int64_t j = 0; j < kPanel; ++j) *out++ = from.at(k, panel * kPanel + j);
  });
}

void pack_bf16(const Context& context, const PackedPanels& to_panels, const Tensor& weight) {
  const Columns from = columns_of(weight);
  const std::int64_t in = to_panels.in, panels = to_panels.panels();
  auto* to = reinterpret_cast<std::uint16_t*>(to_panels.data.raw());
  parallel_for(context, panels, [&](std::int64_t panel) {
    std::uint16_t* out = to + panel * in * kPanel;
    for (std::int64_t k = 0; k < in; ++k, out += kPanel)
      for (std::int64_t j = 0; j < kPanel; ++j)  // words of two: outputs i and 16 + i
        out[j % 16 * 2 + j / 16] = bf16(from.at(k, panel * kPanel + j)).bits;
  });
}

void pack_i8(const Context& context, const PackedPanels& to_panels, const Tensor& weight) {
  const Columns from = columns_of(weight);
  const std::int64_t in = to_panels.in, panels = to_panels.panels();
  auto* to = reinterpret_cast<std::int8_t*>(to_panels.data.raw());
  parallel_for(context, panels, [&](std::int64_t panel) {
    float* scales = to_panels.scales.data<float>() + panel * kPanel;
    std::int8_t* out = to + panel * in * kPanel;
    for (std::int64_t j = 0; j < kPanel; ++j) {
      float largest = 0.0f, broken = 0.0f;  // not a number where a weight is none
      for (std::int64_t k = 0; k < in; ++k) {
        const float value = from.at(k, panel * kPanel + j);
        largest = std::max(largest, std::abs(value));
        broken += 0.0f * value;
      }
      scales[j] = largest / kLargest + broken;
      const float inverse = largest > 0.0f ? kLargest / largest : 0.0f;
      for (std::int64_t k = 0; k < in; ++k)
        out[k * kPanel + j] = static_cast<std::int8_t>(std::lrint(from.at(k, panel * kPanel + j) * inverse));
    }
  });
}

}  // namespace
}  // namespace gemm

template <>
void kernels::pack<Device::cpu>(const Context& context, const PackTensors& io) {
  switch (io.to.form) {
    case gemm::Form::f32: return gemm::pack_f32(context, io.to, io.weight);
    case gemm::Form::bf16: return gemm::pack_bf16(context, io.to, io.weight);
    case gemm::Form::i8: return gemm::pack_i8(context, io.to, io.weight);
  }
}

template <>
void kernels::multiply_packed<Device::cpu>(const Context& context, const PackedProduct& io) {
  using gemm::Form, gemm::kPanel;
  const PackedPanels& w = io.weight;
  const Tensor &x = io.x, &bias = io.bias, &y = io.y;
  const auto kernel = w.form == Form::f32    ? gemm::cpu::multiply_f32
                      : w.form == Form::bf16 ? gemm::cpu::multiply_bf16
                                             : gemm::cpu::multiply_i8;
  const std::int64_t bytes = w.panel_bytes();
  const auto* weights = static_cast<const std::uint8_t*>(w.data.raw());
  constexpr std::int64_t kBlock = 64;  // rows: their products with a panel stay on the stack
  parallel_ranges(context, w.panels(), gemm::grain(bytes), [&](std::int64_t begin, std::int64_t end) {
    float products[kBlock * kPanel];
    for (std::int64_t panel = begin; panel < end;
         ++panel) {  // of all rows before the next: it is read from memory once
      const std::int64_t first = panel * kPanel, count = std::min(kPanel, w.out - first);
      for (std::int64_t at = 0; at < x.dim(0); at += kBlock) {
        const std::int64_t rows = std::min(kBlock, x.dim(0) - at);
        kernel({weights + panel * bytes, w.form == Form::i8 ? w.scales.data<float>() + first : nullptr,
                x.data<float>() + at * w.in, rows, w.in, products});
        for (std::int64_t row = 0; row < rows; ++row)
          for (std::int64_t j = 0; j < count; ++j)
            y.data<float>()[(at + row) * w.out + first + j] =
                products[row * kPanel + j] + (bias.defined() ? bias.data<float>()[first + j] : 0.0f);
      }
    }
  });
}

}  // namespace fovea
