#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "fovea/tensor.h"

// Weights kept for products with few rows. Such a product is bound by reading the weights: they are stored once more,
// in the order in which they are read (oneDNN takes twice as long to read them as they are) and in fewer bytes.
namespace fovea::gemm {

enum class Form : std::uint8_t {
  f32,
  bf16,
  i8,  // whole numbers up to 127 times a scale for each output
};

// Rows of a sequence up to which packed weights beat the model's own.
inline constexpr std::int64_t kPackedRows = 64;

// One weight (in, out) as it is kept. Panels of 32 outputs lie one after another; within a panel the outputs of one
// input lie side by side, in f32 and i8 in their order; in bf16 as 16 words, of which word i holds outputs i and 16 +
// i.
struct PackedPanels {
  static constexpr std::int64_t kPanel = 32;

  Form form;
  std::int64_t in, out;
  Tensor data;    // u8
  Tensor scales;  // (panels * 32), i8 only

  std::int64_t panels() const { return (out + kPanel - 1) / kPanel; }
  std::int64_t panel_bytes() const { return in * kPanel * (form == Form::f32 ? 4 : form == Form::bf16 ? 2 : 1); }
};

class PackedWeight {
 public:
  static constexpr std::int64_t kPanel = PackedPanels::kPanel;

  PackedWeight(const Context& context, const Tensor& weight, Form form);  // f32, any strides

  std::int64_t in() const { return panels_.in; }
  std::int64_t out() const { return panels_.out; }
  std::size_t bytes() const { return panels_.data.bytes(); }

  // x (rows, in) W + bias -> y (rows, out), all f32 and dense; the bias may be undefined. Sums are f32, in the order of
  // the inputs: the same bits for a row at any number of threads and beside any number of other rows.
  void multiply(const Context& context, const Tensor& x, const Tensor& bias, const Tensor& y) const;

 private:
  PackedPanels panels_;
};

// The packed weights of a model. Each is made when it is first asked for.
class PackedWeights {
 public:
  // `parameters`: what may be asked for; their values must not change any more.
  PackedWeights(Form form, const std::vector<Tensor>& parameters);

  // The packed form of a parameter or of its transpose; null for other tensors.
  const PackedWeight* find(const Context& context, const Tensor& weight) const;
  std::size_t bytes() const;  // of those made so far

 private:
  struct Entry {
    Tensor parameter;  // keeps its memory from becoming another's
    std::unique_ptr<PackedWeight> plain, transposed;
  };
  Form form_;
  mutable std::map<const void*, Entry> entries_;
};

}  // namespace fovea::gemm
