#include "models/network.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/parallel.h"

namespace fovea {
namespace {

[[noreturn]] void refuse(const char* what) {
  fail(ErrorCode::unsupported, fmt::format("this model {}", what), "model.task");
}

// Rows of logits (rows, classes), f32 or f64, whose largest entry is the target's. Rows are counted in blocks, so that
// all threads can take part.
template <class T>
std::int64_t count_correct(const Context& context, const Tensor& logits, const std::int32_t* targets) {
  const std::int64_t rows = logits.dim(0), classes = logits.dim(1);
  const T* values = logits.data<T>();
  std::vector<std::uint8_t> correct(static_cast<std::size_t>(rows), 0);
  parallel_for(context, rows, [&](std::int64_t row) {
    if (targets[row] < 0) return;
    const T* begin = values + row * classes;
    correct[static_cast<std::size_t>(row)] = std::max_element(begin, begin + classes) - begin == targets[row];
  });
  return std::count(correct.begin(), correct.end(), 1);
}

}  // namespace

StackSpec stack_spec(const ModelConfig& config, const StackConfig& stack, std::int64_t max_length) {
  StackSpec spec;
  static_cast<StackConfig&>(spec) = stack;
  spec.max_length = max_length;
  spec.dtype = config.dtype;
  spec.checkpointing = config.checkpointing;
  return spec;
}

Loss classification_loss(Tape& tape, const Var& logits, const Tensor& targets, const LossOptions& options) {
  const Context& context = tape.context();
  const std::int64_t rows = targets.numel(), classes = logits.dim(-1);
  const Tensor wanted = targets.contiguous(context).reshape({rows});
  const Var flat = reshape(tape, logits, {rows, classes});
  const std::int32_t* ids = wanted.data<std::int32_t>();
  Loss loss;
  loss.value = cross_entropy(tape, flat, wanted, {.label_smoothing = options.label_smoothing});
  loss.asked = rows - std::count(ids, ids + rows, -1);
  const Tensor values = flat.value().contiguous(context);
  loss.correct = static_cast<double>(values.dtype() == DType::f64 ? count_correct<double>(context, values, ids)
                                                                  : count_correct<float>(context, values, ids));
  return loss;
}

Loss Network::loss(Tape& tape, const Batch& batch, const LossOptions& options) const {
  return classification_loss(tape, forward(tape, batch), batch.targets, options);
}

Var Network::features(Tape&, const Input&) const { refuse("has no vectors for whole inputs"); }
nn::Past Network::new_past() const { refuse("does not generate"); }
nn::Source Network::read_source(Tape&, const Input&) const { return {}; }
Var Network::step(Tape&, const Input&, const std::vector<nn::Past*>&, const nn::Source&) const {
  refuse("does not generate");
}

}  // namespace fovea
