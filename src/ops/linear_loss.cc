#include "gemm/gemm.h"
#include "ops/column_sum.h"
#include "ops/elementwise_kernels.h"
#include "ops/linear.h"
#include "ops/loss.h"
#include "ops/loss_kernels.h"
#include "ops/work.h"

// Cross-entropy of a linear layer. For tokens in the thousands and a vocabulary of 50 000 the logits would be the
// largest tensor of a step, and their gradient the second: here both live for one block of rows. The gradients of x, W
// and b are made as soon as the block's logits are known, for a loss that is the sum over rows; backward scales them.
namespace fovea {
namespace {

// W and its gradient travel through memory once for each block: so many rows that the products outweigh it.
constexpr std::int64_t kBlockRows = 512;
constexpr std::int64_t kBlockElements = 1 << 22;  // few classes: more rows

struct LinearLossInputs {
  CrossEntropy options;
  Tensor x = {}, weight = {};         // (rows, in), (in, out), of one dtype
  Tensor bias = {};                   // (out), in the wide type; undefined: none
  Tensor targets;                     // (rows)
  const ClassShare* share = nullptr;  // null: these are all classes
};

// The gradients of the sum over all rows. Undefined: not wanted.
class LinearLossGradients {
 public:
  LinearLossGradients(const Tape& tape, const Var& x, const Var& weight, const Var& bias, std::int64_t rows)
      : columns_(weight.value().stride(0) == 1 && weight.value().stride(1) > 1) {
    if (!tape.recording()) return;
    const Context& context = tape.context();
    const std::int64_t in = weight.dim(0), out = weight.dim(1);
    const DType wide = wide_type(x.dtype());
    if (x.needs_grad()) x_ = Tensor::empty(context, {rows, in}, x.dtype());
    if (weight.needs_grad())
      weight_ = (rows == 0 ? Tensor::zeros : Tensor::empty)(context, columns_ ? Shape{out, in} : Shape{in, out}, wide,
                                                            Lifetime::step);
    if (bias.defined() && bias.needs_grad()) bias_ = Tensor::zeros(context, {out}, wide);
  }

  // dz (rows of the block, out): the gradient of its logits. Blocks come in order.
  void add(const Context& context, const LinearLossInputs& in, std::int64_t begin, const Tensor& dz) {
    const Tensor x = in.x.slice(0, begin, begin + dz.dim(0)), narrow = dz.to(context, x.dtype());
    if (x_.defined()) gemm::multiply(context, narrow, in.weight.transpose(0, 1), x_.slice(0, begin, begin + dz.dim(0)));
    if (weight_.defined())
      gemm::multiply(context, (columns_ ? narrow : x).transpose(0, 1), columns_ ? x : narrow, weight_,
                     {.bias = {}, .relu = false, .accumulate = begin > 0});
    if (bias_.defined()) {
      const Tensor sum = Tensor::empty(context, bias_.shape(), bias_.dtype());
      const kernels::BinaryTensors io{kernels::Binary::add, bias_, column_sums(context, dz), sum};
      visit_device(context, io, [&]<Device D>() { kernels::binary<D>(context, io); });
      bias_ = sum;
    }
  }

  bool wanted() const { return x_.defined() || weight_.defined() || bias_.defined(); }
  bool columns() const { return columns_; }
  std::vector<Tensor> all() const { return {x_, weight_, bias_}; }

 private:
  bool columns_;
  Tensor x_, weight_, bias_;
};

// Adds the losses of a block of logits to the sums, and leaves its peaks.
void add_losses(const Context& context, const LinearLossInputs& in, const kernels::LossForward& block) {
  if (in.share == nullptr)
    return visit_device(context, block, [&]<Device D>() { kernels::cross_entropy<D>(context, block); });
  const Tensor given = Tensor::empty(context, {block.logits.dim(0), 3}, DType::f64, Lifetime::scratch);
  const kernels::LossShare io{block.logits, block.targets, in.options.ignore_index, block.peaks, given};
  visit_device(context, io, [&]<Device D>() { kernels::share_of_loss<D>(context, io); });
  in.share->join(block.targets, block.peaks, given, block.sums);
}

// The sums of kernels::LossForward.
Tensor sum_blocks(const Context& context, const LinearLossInputs& in, LinearLossGradients& gradients) {
  const std::int64_t rows = in.x.dim(0), classes = in.weight.dim(1),
                     all = in.share == nullptr ? classes : in.share->all_classes,  // blocks that meet are as long
      most = std::min(rows, std::max(kBlockRows, kBlockElements / std::max<std::int64_t>(1, all)));
  const auto room = [&](const Shape& shape) {
    return Tensor::empty(context, shape, wide_type(in.x.dtype()), Lifetime::scratch);
  };
  const Tensor logits = room({most, classes}), peaks = room({most, 2}),
               dz = gradients.wanted() ? room({most, classes}) : Tensor();
  const Tensor sums = Tensor::zeros(context, {3}, DType::f64);
  for (std::int64_t begin = 0; begin < rows; begin += most) {
    const std::int64_t count = std::min(most, rows - begin);
    const Tensor targets = in.targets.slice(0, begin, begin + count), z = logits.slice(0, 0, count);
    gemm::multiply(context, in.x.slice(0, begin, begin + count), in.weight, z, {.bias = in.bias});
    const kernels::LossForward io{in.options, z, targets, peaks.slice(0, 0, count), sums};
    add_losses(context, in, io);
    if (!gradients.wanted()) continue;
    const kernels::LossBackward back{in.options, z, targets, io.peaks, {}, dz.slice(0, 0, count), all};
    visit_device(context, back, [&]<Device D>() { kernels::cross_entropy_backward<D>(context, back); });
    gradients.add(context, in, begin, dz.slice(0, 0, count));
  }
  return sums;
}

// saved: the gradients of the sum over rows, and the sums of the loss. Attribute: the gradient of W was made as (out,
// in), as W itself lies in memory.
void linear_loss_backward(Tape& tape, Node& node) {
  const Context& context = tape.context();
  const bool columns = std::any_cast<bool>(node.attributes);
  const Tensor rate = loss_rate(context, node.grad(), node.saved.back());
  for (std::size_t i = 0; i < node.inputs.size(); ++i) {
    if (!node.wants(i)) continue;
    const Tensor& sum = node.saved[i];
    const kernels::ScaleTensors io{1.0, sum, sum, rate};
    visit_device(context, io, [&]<Device D>() { kernels::scale<D>(context, io); });
    tape.accumulate(node.inputs[i], i == 1 && columns ? sum.transpose(0, 1) : sum.reshape(node.inputs[i]->shape));
  }
}

constexpr Op kLinearLoss{"linear_class_loss", linear_loss_backward};

// `targets`, one for each row, have been checked.
ClassLoss loss_of_rows(Tape& tape, const Var& x, const Var& weight, const Var& bias, LinearLossInputs in) {
  const Context& context = tape.context();
  const std::int64_t rows = in.targets.numel();
  in.targets = in.targets.reshape({rows});
  in.x = x.value().contiguous(context).reshape({rows, weight.dim(0)});
  in.weight = weight.value().to(context, x.dtype());
  if (bias.defined()) in.bias = bias.value().to(context, wide_type(x.dtype())).contiguous(context);
  LinearLossGradients gradients(tape, x, weight, bias, rows);
  const Tensor sums = sum_blocks(context, in, gradients);
  std::vector<Tensor> saved = gradients.all();
  saved.push_back(sums);
  return loss_of(tape.record(kLinearLoss, {x, weight, bias}, mean_loss(context, sums, x.dtype()), std::move(saved),
                             gradients.columns()),
                 sums);
}

}  // namespace

ClassLoss linear_class_loss(Tape& tape, const Var& x, const Var& weight, const Var& bias, const Index& targets,
                            CrossEntropy options) {
  check_linear(x, weight, bias);
  const Shape logits = x.shape().with(-1, weight.dim(1));
  return loss_of_rows(tape, x, weight, bias,
                      {.options = options, .targets = checked_targets(tape.context(), logits, targets, options)});
}

ClassLoss linear_share_loss(Tape& tape, const Var& x, const Var& weight, const Var& bias, const Tensor& targets,
                            CrossEntropy options, const ClassShare& share) {
  check_linear(x, weight, bias);
  return loss_of_rows(tape, x, weight, bias, {.options = options, .targets = targets, .share = &share});
}

}  // namespace fovea
