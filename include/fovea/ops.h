#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "fovea/autograd.h"
#include "fovea/export.h"
#include "fovea/sequences.h"

// The tensor operations of fovea, each with its gradient. All take the tape first, accept f32, f64, bf16 and f16
// activations, compute in f32 (f64 for f64), and parallelise in a way that gives the same bits at any thread count
// (products through oneDNN excepted). Parameters stay f32 (f64) whatever the activations are.
namespace fovea {

// Products.
FOVEA_EXPORT Var matmul(Tape& tape, const Var& a, const Var& b);  // (..., m, k) x (..., k, n), or b (k, n) shared

enum class Activation : std::uint8_t { identity, relu, gelu, gelu_tanh, silu, elu, elu_plus_one, tanh, sigmoid };

// act(x W + b): x (..., in), weight (in, out), bias (out) or undefined. Bias and activation are fused.
FOVEA_EXPORT Var linear(Tape& tape, const Var& x, const Var& weight, const Var& bias = {},
                        Activation activation = Activation::identity);

// Elementwise. b has the shape of a, or of its last axes (broadcast over the leading ones).
FOVEA_EXPORT Var add(Tape& tape, const Var& a, const Var& b);
FOVEA_EXPORT Var mul(Tape& tape, const Var& a, const Var& b);
FOVEA_EXPORT Var scale(Tape& tape, const Var& x, double factor);
FOVEA_EXPORT Var activate(Tape& tape, const Var& x, Activation activation);
// act(x[..., :h]) * x[..., h:] for x (..., 2h), then dropout: the gate of a GLU, fused.
FOVEA_EXPORT Var glu(Tape& tape, const Var& x, Activation activation, double dropout_p = 0.0);
FOVEA_EXPORT Var dropout(Tape& tape, const Var& x, double p);  // inverted scaling; identity unless tape.training()
FOVEA_EXPORT Var cast(Tape& tape, const Var& x, DType dtype);

// Over the last axis, softmax over any. A row of nothing but -inf has weights of 0, and a sum of -inf.
FOVEA_EXPORT Var softmax(Tape& tape, const Var& x, int axis = -1);
FOVEA_EXPORT Var log_softmax(Tape& tape, const Var& x);
FOVEA_EXPORT Var log_sum_exp(Tape& tape, const Var& x);  // (..., n) -> (...), in the wide type

enum class NormKind : std::uint8_t {
  layer,  // (x - mean) / sqrt(var + eps)
  rms,    // x / sqrt(mean(x^2) + eps): form B of the TransNormer literature
  rms_a,  // x / (sqrt(mean(x^2)) + eps): form A
};
struct Norm {
  NormKind kind = NormKind::layer;
  double eps = 1e-5;
  Var gain = {}, bias = {};  // (d), each optional
};
FOVEA_EXPORT Var normalize(Tape& tape, const Var& x, const Norm& norm);
// sum = x + dropout(branch, p); normed = norm(sum): the seam between two sub-layers, in one pass.
struct AddNorm {
  Var sum, normed;
};
FOVEA_EXPORT AddNorm add_norm(Tape& tape, const Var& x, const Var& branch, double dropout_p, const Norm& norm);

// Tables and losses. An embedding has the dtype of its table.
FOVEA_EXPORT Var embedding(Tape& tape, const Var& table, const Tensor& ids);  // (v, d), i32 (...) -> (..., d)
struct CrossEntropy {
  double label_smoothing = 0.0;    // eps / classes on every class, the target included
  std::int32_t ignore_index = -1;  // rows with this target count for nothing
};
FOVEA_EXPORT Var cross_entropy(Tape& tape, const Var& logits, const Tensor& targets, CrossEntropy options = {});

// Reductions and views. Sums, means and losses are scalars in the wide type (f32, f64 for f64).
FOVEA_EXPORT Var sum(Tape& tape, const Var& x);
FOVEA_EXPORT Var mean(Tape& tape, const Var& x);
FOVEA_EXPORT Var mean_pool(Tape& tape, const Var& x, const Sequences& rows);  // (b, n, d) -> (sequences, d); empty -> 0
FOVEA_EXPORT Var first_pool(Tape& tape, const Var& x, const Sequences& rows);  // the first row of each sequence
FOVEA_EXPORT Var reshape(Tape& tape, const Var& x, std::initializer_list<std::int64_t> dims);
FOVEA_EXPORT Var transpose(Tape& tape, const Var& x, int a, int b);  // a view
FOVEA_EXPORT Var concat(Tape& tape, std::span<const Var> parts, int axis);
FOVEA_EXPORT Var slice(Tape& tape, const Var& x, int axis, std::int64_t begin, std::int64_t end);  // a view
FOVEA_EXPORT Var gather(Tape& tape, const Var& x, const Tensor& index);  // rows of axis 0 by i32 index

// Rotary positions on x (b, n, heads, d): pairs (2m, 2m + 1), or (m, m + s/2) for `halves`.
struct Rotary {
  double base = 10000.0;
  bool halves = false;
  std::int64_t width = 0;  // first channels rotated; 0: all (an odd last one passes through)
};
FOVEA_EXPORT Var rotate(Tape& tape, const Var& x, const Tensor& positions,
                        const Rotary& rotary);  // positions i32 (b, n)

}  // namespace fovea
