#include "measure/attention_case.h"

#include <algorithm>

#include "autograd/new_slot.h"
#include "core/parallel.h"
#include "core/rng.h"
#include "measure/memory.h"
#include "measure/stopwatch.h"
#include "mechanisms/kind.h"

namespace fovea {
namespace {

// Standard normal draws, the same for the same stream at any thread count.
Tensor random_tensor(const Context& context, const Shape& shape, DType dtype, std::uint64_t stream) {
  const Tensor values = Tensor::empty(context, shape, DType::f32, Lifetime::persistent);
  float* data = values.data<float>();
  constexpr std::int64_t kPiece = 4096;
  parallel_ranges(context, values.numel(), kPiece, [&](std::int64_t begin, std::int64_t end) {
    Random random(context.seed() + stream, static_cast<std::uint64_t>(begin));
    for (std::int64_t i = begin; i < end; ++i) data[i] = static_cast<float>(random.normal());
  });
  return dtype == DType::f32 ? values : values.to(context, dtype);
}

// Pairs that a window keeps, ends of the sequence taken into account.
double window_pairs(const AttentionProblem& problem) {
  const auto reach = [&](std::int64_t size) { return size < 0 ? problem.n - 1 : std::min(size, problem.n - 1); };
  const auto side = [&](std::int64_t size) {  // sum over rows of the neighbours there are on one side
    const auto s = static_cast<double>(reach(size)), n = static_cast<double>(problem.n);
    return s * n - s * (s + 1.0) / 2.0;
  };
  const double left = side(problem.window->left), right = problem.causal ? 0.0 : side(problem.window->right);
  return static_cast<double>(problem.n) + left + right;
}

// What has a causal form only, is timed in that.
bool is_causal(const AttentionProblem& problem) {
  return problem.causal || !problem.mechanism.supports(Feature::bidirectional);
}

Flops flops_of_sequence(const AttentionProblem& problem, std::int64_t n) {
  const auto d = static_cast<double>(problem.dim);
  const Sizes sizes{static_cast<double>(n), static_cast<double>(problem.heads), d, d, is_causal(problem)};
  return problem.window ? pairwise_flops(window_pairs(problem), sizes)
                        : problem.mechanism.kind().flops(sizes, problem.mechanism);
}

Flops flops_of(const AttentionProblem& problem) {
  if (problem.packed.empty()) return flops_of_sequence(problem, problem.n);
  Flops all{};
  for (const std::int32_t length : problem.packed) {
    const Flops one = flops_of_sequence(problem, length);
    all = {all.forward + one.forward, all.backward + one.backward};
  }
  return all;
}

std::int64_t longest(const AttentionProblem& problem) {
  return problem.packed.empty() ? problem.n : *std::max_element(problem.packed.begin(), problem.packed.end());
}

}  // namespace

double AttentionProblem::forward_flops() const { return static_cast<double>(batch) * flops_of(*this).forward; }
double AttentionProblem::backward_flops() const { return static_cast<double>(batch) * flops_of(*this).backward; }

AttentionData random_data(const Context& context, const AttentionProblem& problem) {
  const Shape shape{problem.batch, problem.n, problem.heads, problem.dim};
  const auto tensor = [&](std::uint64_t stream) { return random_tensor(context, shape, problem.dtype, stream); };
  const Shape flat{problem.batch, problem.n, problem.heads * problem.dim};
  return {tensor(1), tensor(2), tensor(3), tensor(4), tensor(5).reshape(flat)};
}

AttentionCase::AttentionCase(Context& context, AttentionProblem problem, AttentionData data)
    : context_(context), problem_(std::move(problem)), data_(std::move(data)) {
  options_.causal = is_causal(problem_);
  options_.window = problem_.window;
  if (!problem_.packed.empty()) options_.queries.cu_seqlens.push_back(0);
  for (const std::int32_t length : problem_.packed)
    options_.queries.cu_seqlens.push_back(options_.queries.cu_seqlens.back() + length);
  const std::int64_t width = problem_.heads * problem_.dim;
  options_.weights = make_weights(context, problem_.mechanism,
                                  {.heads = problem_.heads,
                                   .kv_heads = problem_.heads,
                                   .d_k = problem_.dim,
                                   .d_v = problem_.dim,
                                   .width = width,
                                   .max_length = longest(problem_)},
                                  problem_.dtype);
}

Var AttentionCase::output(Tape& tape) const {
  const auto input = [&](const Tensor& value) { return tape.recording() ? wanted(value) : Var(value); };
  AttentionOptions options = options_;
  if (problem_.mechanism.needs_input()) options.input = input(data_.input);
  return attention(tape, input(data_.q), input(data_.k), input(data_.v), problem_.mechanism, options).output;
}

double AttentionCase::forward() {
  const Stopwatch watch;
  Tape tape(context_, {.record = false});
  output(tape);
  return watch.seconds();
}

double AttentionCase::backward() {
  Tape tape(context_);
  const Var result = output(tape);
  const Stopwatch watch;
  tape.backward(result, data_.grad);
  return watch.seconds();
}

double AttentionCase::both() {
  const Stopwatch watch;
  Tape tape(context_);
  tape.backward(output(tape), data_.grad);
  return watch.seconds();
}

std::size_t AttentionCase::peak_memory(bool with_backward) {
  const PeakMemory peak(context_);
  with_backward ? both() : forward();
  return peak.extra_bytes();
}

}  // namespace fovea
