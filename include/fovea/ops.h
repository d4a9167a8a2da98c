#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <vector>

#include "fovea/autograd.h"
#include "fovea/export.h"
#include "fovea/sequences.h"

// The tensor operations of fovea, each with its gradient. All take the tape first, accept f32, f64, bf16 and f16
// activations, compute in f32 (f64 for f64), and parallelise in a way that gives the same bits at any thread count
// (products through oneDNN excepted). Parameters stay f32 (f64) whatever the activations are.
namespace fovea {

// Rows of an axis by their numbers, i32. One that an operation made, or that was checked on the host, says in what
// range its entries are, and nobody looks at them again. Any other is checked where it lies: on a device that means to
// wait for it. It may lie on the host: then it is taken along to where the operation runs.
struct Index {
  Index() = default;
  Index(Tensor entries) : entries(std::move(entries)) {}  // (implicit: of unknown numbers)
  Index(Tensor entries, std::int64_t least, std::int64_t limit, bool once = false)
      : entries(std::move(entries)), least(least), limit(limit), once(once) {}

  bool within(std::int64_t low, std::int64_t high) const { return least >= low && limit <= high; }

  Tensor entries;
  std::int64_t least = std::numeric_limits<std::int64_t>::min(), limit = std::numeric_limits<std::int64_t>::max();
  bool once = false;  // none but -1 is there twice
};

// Products.
FOVEA_EXPORT Var matmul(Tape& tape, const Var& a, const Var& b);  // (..., m, k) x (..., k, n), or b (k, n) shared

enum class Activation : std::uint8_t {
  identity,
  relu,
  gelu,
  gelu_tanh,
  silu,
  elu,
  elu_plus_one,
  tanh,
  sigmoid,
  gelu_quick,    // x sigmoid(1.702 x)
  relu_squared,  // max(x, 0)^2
  swish,         // another name of silu
};

// act(x W + b): x (..., in), weight (in, out), bias (out) or undefined. Bias and activation are fused.
FOVEA_EXPORT Var linear(Tape& tape, const Var& x, const Var& weight, const Var& bias = {},
                        Activation activation = Activation::identity);

// Elementwise. b has the shape of a, or of its last axes (broadcast over the leading ones), or is one number.
FOVEA_EXPORT Var add(Tape& tape, const Var& a, const Var& b);
FOVEA_EXPORT Var sub(Tape& tape, const Var& a, const Var& b);
FOVEA_EXPORT Var mul(Tape& tape, const Var& a, const Var& b);
FOVEA_EXPORT Var scale(Tape& tape, const Var& x, double factor);
// x min(e^t, most), t one number: the learned temperature of a contrastive loss. Beyond the limit t gets only a
// gradient that lowers it, so it can come back.
FOVEA_EXPORT Var exp_scale(Tape& tape, const Var& x, const Var& log_factor, double most = 100.0);
FOVEA_EXPORT Var activate(Tape& tape, const Var& x, Activation activation);
// act(x[..., :h]) * x[..., h:] for x (..., 2h), then dropout: the gate of a GLU, fused.
FOVEA_EXPORT Var glu(Tape& tape, const Var& x, Activation activation, double dropout_p = 0.0);
FOVEA_EXPORT Var dropout(Tape& tape, const Var& x, double p);  // inverted scaling; identity unless tape.training()
FOVEA_EXPORT Var cast(Tape& tape, const Var& x, DType dtype);
FOVEA_EXPORT Var reciprocal(Tape& tape, const Var& x);

// Over the last axis, softmax over any. A row of nothing but -inf has weights of 0, and a sum of -inf.
FOVEA_EXPORT Var softmax(Tape& tape, const Var& x, int axis = -1);
FOVEA_EXPORT Var log_softmax(Tape& tape, const Var& x);
FOVEA_EXPORT Var log_sum_exp(Tape& tape, const Var& x);  // (..., n) -> (...), in the wide type

enum class NormKind : std::uint8_t {
  layer,  // (x - mean) / sqrt(var + eps)
  rms,    // x / sqrt(mean(x^2) + eps): form B of the TransNormer literature
  rms_a,  // x / (sqrt(mean(x^2)) + eps): form A
  l2,     // x / max(|x|, eps)
};
struct Norm {
  NormKind kind = NormKind::layer;
  double eps = 1e-5;
  Var gain = {}, bias = {};  // (d), each optional
};
FOVEA_EXPORT Var normalize(Tape& tape, const Var& x, const Norm& norm);
// Rows of length 1: embeddings to be compared. A row shorter than eps is divided by eps.
FOVEA_EXPORT Var l2_normalize(Tape& tape, const Var& x, double eps = 1e-12);
// Norms of channels, x (b, n, d): padding takes no part in them and becomes 0. They mix positions (group_norm not when
// per_token), so they have no place where later tokens must stay unseen.
struct BatchNorm {
  Var gain = {}, bias = {};  // (d), each optional
  // (d), in the wide type. Training measures the rows of all sequences and moves these towards what it found (the
  // variance unbiased); otherwise they are the statistics.
  Tensor running_mean = {}, running_var = {};
  double momentum = 0.1, eps = 1e-5;
};
FOVEA_EXPORT Var batch_norm(Tape& tape, const Var& x, const Sequences& rows, const BatchNorm& norm);
struct InstanceNorm {
  Var gain = {}, bias = {};
  double eps = 1e-5;
};
FOVEA_EXPORT Var instance_norm(Tape& tape, const Var& x, const Sequences& rows, const InstanceNorm& norm = {});
struct GroupNorm {
  std::int64_t groups = 1;  // of neighbouring channels
  Var gain = {}, bias = {};
  double eps = 1e-5;
  bool per_token = false;  // over a group's channels of one token; else over those of all tokens of a sequence
};
FOVEA_EXPORT Var group_norm(Tape& tape, const Var& x, const Sequences& rows, const GroupNorm& norm);
// s v / |v| for each column (output) of v (..., out), s (out): a weight by direction and length. A column of zeros
// stays.
FOVEA_EXPORT Var weight_norm(Tape& tape, const Var& v, const Var& s);
// sum = x + dropout(branch, p); normed = norm(sum): the seam between two sub-layers, in one pass.
struct AddNorm {
  Var sum, normed;
};
FOVEA_EXPORT AddNorm add_norm(Tape& tape, const Var& x, const Var& branch, double dropout_p, const Norm& norm);

// Tables and losses. An embedding has the dtype of its table.
FOVEA_EXPORT Var embedding(Tape& tape, const Var& table, const Index& ids);  // (v, d), i32 (...) -> (..., d)
struct CrossEntropy {
  double label_smoothing = 0.0;    // eps / classes on every class, the target included
  std::int32_t ignore_index = -1;  // rows with this target count for nothing
};
struct ClassLoss {
  Var value;              // cross-entropy, the mean over the rows that count
  Tensor asked, correct;  // f64 scalars: rows that count; of these, the target's logit is the first of the largest
};
FOVEA_EXPORT ClassLoss class_loss(Tape& tape, const Var& logits, const Index& targets, CrossEntropy options = {});
// The same of linear(x, weight, bias), for large vocabularies: logits and their gradients exist for one block of rows
// at a time, in the wide type.
FOVEA_EXPORT ClassLoss linear_class_loss(Tape& tape, const Var& x, const Var& weight, const Var& bias,
                                         const Index& targets, CrossEntropy options = {});
inline Var cross_entropy(Tape& tape, const Var& logits, const Index& targets, CrossEntropy options = {}) {
  return class_loss(tape, logits, targets, options).value;
}

// Means over all elements of (x - target)^2 and of |x - target|. Both have gradients.
FOVEA_EXPORT Var mse(Tape& tape, const Var& x, const Var& target);
FOVEA_EXPORT Var mae(Tape& tape, const Var& x, const Var& target);

// Reductions and views. Sums, means and losses are scalars in the wide type (f32, f64 for f64).
FOVEA_EXPORT Var sum(Tape& tape, const Var& x);
FOVEA_EXPORT Var mean(Tape& tape, const Var& x);
FOVEA_EXPORT Var mean_pool(Tape& tape, const Var& x, const Sequences& rows);  // (b, n, d) -> (sequences, d); empty -> 0
FOVEA_EXPORT Var first_pool(Tape& tape, const Var& x, const Sequences& rows);  // the first row of each sequence
FOVEA_EXPORT Var last_pool(Tape& tape, const Var& x, const Sequences& rows);
// The row index[s] of each sequence s, counted from its beginning: the end token of a text.
FOVEA_EXPORT Var pool_at(Tape& tape, const Var& x, const Sequences& rows, std::span<const std::int32_t> index);
FOVEA_EXPORT Var reshape(Tape& tape, const Var& x, std::initializer_list<std::int64_t> dims);
FOVEA_EXPORT Var transpose(Tape& tape, const Var& x, int a, int b);  // a view
FOVEA_EXPORT Var concat(Tape& tape, std::span<const Var> parts, int axis);
FOVEA_EXPORT Var slice(Tape& tape, const Var& x, int axis, std::int64_t begin, std::int64_t end);  // a view
FOVEA_EXPORT Var gather(Tape& tape, const Var& x, const Index& index);                             // rows of axis 0

// Windows along the positions of x (b, n, c). The ends of every sequence are padded first; windows that would need more
// rows than there are then are left out.
enum class EdgePadding : std::uint8_t { zeros, circular, replicate };
struct Sliding {
  std::int64_t size = 3, stride = 1;
  std::int64_t before = 0, after = 0;  // rows of padding
  EdgePadding padding = EdgePadding::zeros;
};
struct SlidingRows {
  Var value;       // (b, m, ...), m = (n + before + after - size) / stride + 1; packed: (1, all windows, ...)
  Sequences rows;  // of the windows
};
// (b, m, size c): the rows of a window one after the other.
FOVEA_EXPORT SlidingRows unfold1d(Tape& tape, const Var& x, const Sliding& options, const Sequences& rows = {});
// The largest of each window and channel. Padding with zeros stands for nothing here, and never wins.
FOVEA_EXPORT SlidingRows max_pool1d(Tape& tape, const Var& x, const Sliding& options, const Sequences& rows = {});
// Means over `size` rows around each one, the ends replicated: the trend of a series.
FOVEA_EXPORT Var avg_pool1d(Tape& tape, const Var& x, std::int64_t size, const Sequences& rows = {});
// y_i = sum over t of x_(i + t - (k - 1) / 2) weight_t + bias: weight (k, c, out), bias (out) or undefined.
struct Conv1d {
  EdgePadding padding = EdgePadding::zeros;
  Sequences rows = {};
};
FOVEA_EXPORT Var conv1d(Tape& tape, const Var& x, const Var& weight, const Var& bias, const Conv1d& options = {});
// Images (b, h, w, c) -> (b, h w / p^2, p p c): squares of p x p pixels, left to right and top to bottom; pixels of a
// square in the same order.
FOVEA_EXPORT Var patches(Tape& tape, const Var& images, std::int64_t p);

// Experts: every token goes to the one its router prefers.
struct Route {
  std::int64_t capacity = 0;  // tokens an expert takes; those who come later are left out
  Sequences rows = {};        // padding goes nowhere
};
struct Routing {
  Index tokens;    // (b n): rows, expert after expert, each in order; -1 after the last that was taken
  Tensor begin;    // i32 (experts + 1): of each expert in them
  Var gates;       // (b n), in the wide type: the probability of the expert; 0 after the last
  Var balance;     // experts * sum of (share of tokens that prefer e) (mean probability of e): 1 when all are equal
  Tensor dropped;  // i32 scalar: those who came too late
};
// Logits (b, n, experts) or (tokens, experts); probabilities are f32 (f64). Of equal logits the first wins.
FOVEA_EXPORT Routing route_top1(Tape& tape, const Var& logits, const Route& route);
// ceil(factor tokens / experts), at least 1.
FOVEA_EXPORT std::int64_t expert_capacity(std::int64_t tokens, std::int64_t experts, double factor);
// Rows of x (b n, d) in the order of a routing, and 0 after the last that was taken.
FOVEA_EXPORT Var to_experts(Tape& tape, const Var& x, const Routing& routing);
// act(x W_e + b_e) for the rows of each expert, as to_experts() has them, and 0 after the last: x (m, in), weights (in,
// out), biases (out), or none of these.
struct ExpertLinear {
  std::vector<Var> weights, biases;
  Activation activation = Activation::identity;
};
FOVEA_EXPORT Var expert_linear(Tape& tape, const Var& x, const Tensor& begin, const ExpertLinear& layer);
// (count, d) with scale_i values_i at row index_i, and 0 in the others: values (m, d), index (m) without repeats, scale
// (m) or undefined. An index that is known may have -1 for nowhere.
FOVEA_EXPORT Var scatter_rows(Tape& tape, const Var& values, const Index& index, std::int64_t count,
                              const Var& scale = {});
// x times numbers drawn from [1 - amount, 1 + amount); identity unless tape.training().
FOVEA_EXPORT Var jitter(Tape& tape, const Var& x, double amount);

// Slower turns, for sequences longer than those a model was trained on: all by the factor, or with a `length` only what
// turns less than `low` times in it; what turns more than `high` times stays, and the factor fades in between.
struct RotaryStretch {
  double factor = 1.0;
  double low = 1.0, high = 4.0;
  std::int64_t length = 0;

  FOVEA_EXPORT double slowed(double frequency) const;  // radians for each position
};

// Rotary positions on x (b, n, heads, d): pairs (2m, 2m + 1), or (m, m + s/2) for `halves`.
struct Rotary {
  double base = 10000.0;
  bool halves = false;
  std::int64_t width = 0;  // first channels rotated; 0: all (an odd last one passes through)
  RotaryStretch stretch = {};
};
FOVEA_EXPORT Var rotate(Tape& tape, const Var& x, const Tensor& positions,
                        const Rotary& rotary);  // positions i32 (b, n)

}  // namespace fovea
