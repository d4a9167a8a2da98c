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
  double bias = 0.0;   // size of a bias with a gradient
  bool mask = false;   // every third pair is hidden
  bool picks = false;  // rows by an index, which is read to be checked
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
    if (c.mask) {
      std::vector<std::uint8_t> mask(kTokens * kTokens);
      for (std::size_t i = 0; i < mask.size(); ++i) mask[i] = i % 3 == 0 ? 0 : 1;
      options.mask = Tensor::from<std::uint8_t>(context, {1, 1, kTokens, kTokens}, mask);
    }
    const Mechanism mechanism = Mechanism::parse(c.mechanism);
    options.weights = make_weights(context, mechanism,
                                   {.heads = 4, .kv_heads = 2, .d_k = 16, .d_v = 8, .max_length = kTokens}, c.dtype);
    for (const Var& weight : options.weights)
      if (weight.needs_grad()) leaves.push_back(weight);
    const Tensor d_o = random(host_, {2, kTokens, 4, 8}, 5, c.dtype).clone(context);
    const int reads = memory_->reads;
    Tape tape(context, {.training = true});
    const Var o = attention(tape, q, k, v, mechanism, options).output;
    tape.backward(o, d_o);
    EXPECT_TRUE(memory_->reads == reads || c.picks);
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
      {.name = "diag", .mechanism = "diag:block=16"},
      {.name = "sparse_strided", .mechanism = "sparse-strided"},  // parts, joined by their log-sum-exp
      {.name = "relu2", .mechanism = "relu2"},
      {.name = "topk", .mechanism = "topk:k=5", .options = {.causal = true}},
      {.name = "sparsemax", .mechanism = "sparsemax"},
      {.name = "linear", .mechanism = "linear", .options = padded({})},
      {.name = "norm", .mechanism = "norm", .options = {.causal = true}},
      {.name = "masked", .mechanism = "softmax", .bias = 0.5, .mask = true},
      {.name = "cosine", .mechanism = "softmax:score=cosine"},
      {.name = "taylor", .mechanism = "taylor"},
      {.name = "additive", .mechanism = "additive", .options = padded({})},
      {.name = "kernelized", .mechanism = "kernelized", .dtype = DType::bf16},
      {.name = "fixed_encoder", .mechanism = "fixed-encoder"},
      {.name = "performer", .mechanism = "performer:features=32", .options = padded({})},
      {.name = "cosformer", .mechanism = "cosformer", .options = {.causal = true}},
      {.name = "polysketch", .mechanism = "polysketch:features=8"},
      {.name = "lara", .mechanism = "lara:landmarks=8", .options = padded({})},
      {.name = "s4d", .mechanism = "s4d", .options = padded({})},
      {.name = "linformer", .mechanism = "linformer:slots=8", .options = padded({})},
      {.name = "nystrom", .mechanism = "nystrom:landmarks=8", .options = padded({})},
      {.name = "reformer", .mechanism = "reformer:chunk=16", .options = padded({.causal = true}), .picks = true},
      {.name = "informer", .mechanism = "informer", .options = padded({}), .picks = true},
      {.name = "informer_causal", .mechanism = "informer", .options = {.causal = true}, .picks = true},
      {.name = "sinkhorn", .mechanism = "sinkhorn:block=16", .options = padded({}), .picks = true},
      {.name = "sinkhorn_causal", .mechanism = "sinkhorn:block=16", .options = {.causal = true}, .picks = true},
      {.name = "retnet", .mechanism = "retnet", .options = {.causal = true}, .dtype = DType::bf16},
  };
}
INSTANTIATE_TEST_SUITE_P(All, AttentionOnDevice, ::testing::ValuesIn(cases()),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace fovea::testing
