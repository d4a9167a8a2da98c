#include "measure/attention_case.h"

#include <gtest/gtest.h>

#include <cstring>

#include "measure/machine.h"
#include "measure/memory.h"

namespace fovea {
namespace {

AttentionProblem small(const char* mechanism) {
  AttentionProblem problem;
  problem.mechanism = Mechanism::parse(mechanism);
  problem.n = 33;
  problem.heads = 2;
  problem.dim = 8;
  return problem;
}

TEST(AttentionFlops, MatchTheBenchmarkTable) {
  AttentionProblem softmax;
  softmax.n = 4096;
  const double n = 4096, d = 64, h = 8;
  EXPECT_EQ(softmax.forward_flops(), 4 * n * n * d * h);
  EXPECT_EQ(softmax.backward_flops(), 10 * n * n * d * h);
  softmax.causal = true;
  softmax.batch = 3;
  EXPECT_EQ(softmax.forward_flops(), 3 * 2 * n * n * d * h);

  AttentionProblem norm;
  norm.mechanism = Mechanism("norm");
  norm.n = 4096;
  EXPECT_EQ(norm.forward_flops(), n * h * 4 * d * d);
  EXPECT_EQ(norm.backward_flops(), n * h * 8 * d * d);
  norm.causal = true;
  EXPECT_EQ(norm.forward_flops(), n * h * (4 * d * d + 128 * d));
  EXPECT_EQ(norm.backward_flops(), n * h * (8 * d * d + 320 * d));
}

TEST(AttentionFlops, CountThePairsThatAWindowKeeps) {
  for (const Window window : {Window{3, 0}, Window{2, 5}, Window{100, 0}, Window{-1, 1}, Window{0, 0}})
    for (const bool causal : {false, true}) {
      AttentionProblem problem = small("softmax");
      problem.window = window;
      problem.causal = causal;
      double pairs = 0;
      for (std::int64_t i = 0; i < problem.n; ++i)
        for (std::int64_t j = 0; j < problem.n; ++j) {
          const bool left = window.left < 0 || j >= i - window.left;
          const bool right = window.right < 0 || j <= i + window.right;
          pairs += left && right && (!causal || j <= i) ? 1 : 0;
        }
      EXPECT_EQ(problem.forward_flops(), pairs * 2 * 4 * 8) << window.left << " " << window.right << " " << causal;
    }
}

TEST(AttentionCase, RunsEveryMechanismAndLeavesNothingBehind) {
  Context context({.threads = 2, .memory = {.poison = true}});
  for (std::string_view name : mechanism_names()) {
    const AttentionProblem problem = small(std::string(name).c_str());
    AttentionCase attention(context, problem, random_data(context, problem));
    attention.both();  // gradients of weights stay
    const std::size_t before = context.allocator()->total().now;
    EXPECT_GT(attention.forward(), 0);
    EXPECT_GT(attention.backward(), 0);
    EXPECT_GT(attention.both(), 0);
    EXPECT_EQ(context.allocator()->total().now, before) << name;
    const std::size_t output = 33 * 2 * 8 * sizeof(float);
    EXPECT_GE(attention.peak_memory(false), output);
    EXPECT_GE(attention.peak_memory(true), 4 * output);
  }
}

TEST(AttentionCase, InputsDoNotDependOnThreads) {
  const Context one({.threads = 1}), two({.threads = 2});
  AttentionProblem problem = small("softmax");
  problem.n = 1000;
  const AttentionData a = random_data(one, problem), b = random_data(two, problem);
  EXPECT_EQ(a.k.to_vector<float>(), b.k.to_vector<float>());
  EXPECT_NE(a.k.to_vector<float>(), a.v.to_vector<float>());
}

TEST(PeakMemory, SeesBlocksThatAreGoneAgain) {
  const Context context;
  constexpr std::int64_t kFloats = 8 << 20;
  const PeakMemory peak(context);
  {
    const Tensor tensor = Tensor::empty(context, {kFloats});
    std::memset(tensor.raw(), 0, tensor.bytes());
  }
  EXPECT_GE(peak.extra_bytes(), kFloats * sizeof(float));
  EXPECT_LT(peak.extra_bytes(), 2 * kFloats * sizeof(float));
  EXPECT_GE(peak_resident_bytes(), kFloats * sizeof(float));
}

TEST(Machine, IsDescribed) {
  const Machine machine = this_machine();
  EXPECT_GE(machine.cores, 1);
  EXPECT_GT(machine.memory, machine.memory_free);
  EXPECT_NE(machine.text().find(std::to_string(machine.cores) + " core"), std::string::npos);
  EXPECT_FALSE(onednn_version().empty());
}

}  // namespace
}  // namespace fovea
