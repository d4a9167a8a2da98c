// Attention through both engines on a device whose memory the host cannot touch: the bits of the host, without a
// transfer back.

#include <gtest/gtest.h>

#include "fovea/attention.h"
#include "support/fenced_memory.h"
#include "support/tensors.h"

namespace fovea::testing {
namespace {

struct DeviceCase {
  std::string name, mechanism;
  AttentionOptions options = {};
  DType dtype = DType::f32;
  double bias = 0.0;  // size of a bias with a gradient
};
void PrintTo(const DeviceCase& c, std::ostream* out) { *out << c.name; }

class AttentionOnDevice : public ::testing::TestWithParam<DeviceCase> {
 protected:
  static constexpr std::int64_t kTokens = 70;

  // Output and gradients, on the host.
  std::vector<Tensor> run(Context& context) {
    const DeviceCase& c = GetParam();
    const auto leaf = [&](const Shape& shape, std::uint64_t seed, DType dtype, double size) {
      return Var::leaf(random(host_, shape, seed, dtype, size).clone(context));
    };
    const Var q = leaf({2, kTokens, 4, 16}, 1, c.dtype, 1.0), k = leaf({2, kTokens, 2, 16}, 2, c.dtype, 1.0),
              v = leaf({2, kTokens, 2, 8}, 3, c.dtype, 1.0);
    AttentionOptions options = c.options;
    std::vector<Var> leaves{q, k, v};
    if (c.bias != 0.0) leaves.push_back(options.bias = leaf({1, 4, kTokens, kTokens}, 4, DType::f32, c.bias));
    const Tensor d_o = random(host_, {2, kTokens, 4, 8}, 5, c.dtype).clone(context);
    const int reads = memory_->reads;
    Tape tape(context, {.training = true});
    const Var o = attention(tape, q, k, v, Mechanism::parse(c.mechanism), options).output;
    tape.backward(o, d_o);
    EXPECT_EQ(memory_->reads, reads);
    std::vector<Tensor> results{o.value().clone(host_)};
    for (const Var& x : leaves) results.push_back(x.grad().clone(host_));
    return results;
  }

  std::shared_ptr<FencedMemory> memory_ = std::make_shared<FencedMemory>();
  Context device_{{.threads = 2, .seed = 7, .pages = memory_}};
  Context host_{{.threads = 2, .seed = 7}};
};

TEST_P(AttentionOnDevice, HasTheBitsOfTheHost) {
  const std::vector<Tensor> there = run(device_), here = run(host_);
  for (std::size_t i = 0; i < here.size(); ++i) EXPECT_TRUE(same_bits(there[i], here[i])) << i;
}

AttentionOptions padded(AttentionOptions options) {
  options.queries.lengths = {70, 33};
  return options;
}

std::vector<DeviceCase> cases() {
  return {
      {.name = "softmax", .mechanism = "softmax"},
      {.name = "softmax_bf16", .mechanism = "softmax", .options = {.causal = true}, .dtype = DType::bf16},
      {.name = "softmax_modified",
       .mechanism = "softmax",
       .options = padded({.causal = true, .window = Window{20, -1}, .alibi = true, .dropout_p = 0.2}),
       .bias = 0.5},
      {.name = "diag", .mechanism = "diag(block=16)"},
      {.name = "relu2", .mechanism = "relu2"},
      {.name = "topk", .mechanism = "topk(k=5)", .options = {.causal = true}},
      {.name = "sparsemax", .mechanism = "sparsemax"},
      {.name = "linear", .mechanism = "linear", .options = padded({})},
      {.name = "norm", .mechanism = "norm", .options = {.causal = true}},
      {.name = "retnet", .mechanism = "retnet", .options = {.causal = true}, .dtype = DType::bf16},
  };
}
INSTANTIATE_TEST_SUITE_P(All, AttentionOnDevice, ::testing::ValuesIn(cases()),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace fovea::testing
