// Tensors and products on a device whose memory the host cannot touch.

#include <gtest/gtest.h>
#include <omp.h>

#include "core/devices.h"
#include "fovea/init.h"
#include "fovea/ops.h"
#include "gemm/gemm.h"
#include "gemm/packed.h"
#include "ops/inverse.h"
#include "ops/sequence.h"
#include "support/expect_error.h"
#include "support/fenced_memory.h"
#include "support/tensors.h"

namespace fovea::testing {
namespace {

class OnDevice : public ::testing::Test {
 protected:
  std::shared_ptr<FencedMemory> memory_ = std::make_shared<FencedMemory>();
  Context device_{{.threads = 2, .seed = 7, .pages = memory_}};
  Context host_{{.threads = 2, .seed = 7}};
};

TEST_F(OnDevice, TensorsKnowWhereTheyAre) {
  const Tensor t = Tensor::zeros(device_, {2, 3});
  EXPECT_EQ(device_.device(), Device::fenced);
  EXPECT_EQ(t.device(), Device::fenced);
  EXPECT_EQ(t.transpose(0, 1).slice(0, 1, 2).memory(), memory_);
  EXPECT_EQ(Tensor::zeros(host_, {2}).device(), Device::cpu);
  float borrowed = 1.0f;
  EXPECT_EQ(Tensor::wrap(&borrowed, {1}, DType::f32).device(), Device::cpu);
  EXPECT_EQ(Tensor::wrap(t.raw(), {2, 3}, DType::f32).in(memory_).to_vector<float>(), std::vector<float>(6, 0.0f));
}

TEST_F(OnDevice, ValuesGoThereAndComeBack) {
  const std::vector<float> values{1, 2, 3, 4, 5, 6};
  const Tensor t = Tensor::from<float>(device_, {2, 3}, values);
  EXPECT_EQ(memory_->writes, 1);
  EXPECT_EQ(t.to_vector<float>(), values);
  EXPECT_EQ(memory_->reads, 1);
  EXPECT_EQ(t.transpose(0, 1).to_vector<double>(), (std::vector<double>{1, 4, 2, 5, 3, 6}));
  EXPECT_EQ(t.select(0, 1).select(0, 2).item(), 6.0);
  EXPECT_EQ(memory_->reads, 3);
  const Tensor columns = Tensor::zeros(device_, {3, 2}, DType::f64).transpose(0, 1);  // converts and turns on the way
  columns.copy_from(t.clone(host_));
  EXPECT_EQ(columns.to_vector<float>(), values);
  columns.fill(2.0);
  EXPECT_EQ(columns.to(device_, DType::bf16).to_vector<float>(), std::vector<float>(6, 2.0f));
  const auto other = std::make_shared<FencedMemory>();
  const Context second({.threads = 1, .pages = other});
  const int reads = memory_->reads;
  EXPECT_EQ(t.clone(second).to_vector<float>(), values);
  EXPECT_EQ(memory_->reads, reads);  // one kernel copies
}

TEST_F(OnDevice, WeightsStartAsOnTheHost) {
  for (const Init& init : {Init::zeros(), Init::constant(3.0), Init::normal(0.5), Init::features()})
    EXPECT_TRUE(same_bits(make_weight(device_, "w", {2, 5, 4}, DType::f32, init).clone(host_),
                          make_weight(host_, "w", {2, 5, 4}, DType::f32, init)));
}

TEST_F(OnDevice, RefusesTensorsOfOtherDevices) {
  const Tensor here = Tensor::zeros(device_, {2, 2}), there = Tensor::zeros(host_, {2, 2});
  Tape on_device(device_), on_host(host_);
  const char* hint = "copy it first: tensor.clone(context), with a context on fenced";
  EXPECT_ERROR(add(on_device, Var(here), Var(there)), ErrorCode::usage,
               "an operation on fenced was given a tensor on cpu", "device", hint);
  EXPECT_ERROR(activate(on_device, Var(there.transpose(0, 1)), Activation::relu), ErrorCode::usage,
               "an operation on fenced was given a tensor on cpu", "device", hint);
  EXPECT_ERROR(matmul(on_host, Var(there), Var(here)), ErrorCode::usage,
               "an operation on cpu was given a tensor on fenced", "device", "with a context on cpu");
}

// What is no case of the laws (laws_test.cc).
TEST_F(OnDevice, RunsInversesOrdersAndPackedProducts) {
  const Tensor scores = random(host_, {2, 40, 3}, 1, DType::f32), keys = Tensor::empty(host_, {2, 40, 3}, DType::i64);
  for (std::int64_t i = 0; i < keys.numel(); ++i) keys.data<std::int64_t>()[i] = i * 7 % 11;
  const Sequences padded{.lengths = {40, 17}};
  const Tensor p = random(host_, {3, 6, 6}, 2, DType::f32), x = random(host_, {4, 24}, 3, DType::f32),
               w = random(host_, {24, 48}, 4, DType::f32);
  const auto run = [&](Context& context) {
    const auto here = [&](const Tensor& t) { return t.clone(context); };
    Tape tape(context);
    const Var leaf = Var::leaf(here(p)), rows = softmax(tape, leaf, -1);
    const Var z = iterative_inverse(tape, rows, {.steps = 3}),
              m = regularized_inverse(tape, matmul(tape, rows, transpose(tape, rows, 1, 2)), {.shift = 0.5});
    tape.backward(mean(tape, add(tape, z, m)));
    const Tensor weight = here(w);
    const gemm::PackedWeights packed(gemm::Form::i8, {weight});
    Tape inference(context, {.record = false, .packed = &packed});
    return std::vector<Tensor>{top_indices(context, here(scores), 5, padded),
                               argsort(context, here(keys), padded),
                               z.value(),
                               m.value(),
                               leaf.grad(),
                               linear(inference, Var(here(x)), Var(weight), {}, Activation::relu).value()};
  };
  const auto want = run(host_), got = run(device_);
  for (std::size_t i = 0; i < want.size(); ++i) EXPECT_TRUE(same_bits(got[i].clone(host_), want[i])) << i;
}

// An index of the host is checked there and taken along, one that says its range is not looked at: neither waits for
// the device. One that lies there and says nothing has to be read.
TEST_F(OnDevice, IndicesAreCheckedWhereTheyLie) {
  const Tensor table = random(device_, {5, 3}, 1, DType::f32), logits = random(device_, {4, 5}, 2, DType::f32),
               ids = integers(host_, {4}, {4, 0, -1, 3}), there = ids.slice(0, 0, 2).clone(device_);
  Tape tape(device_);
  memory_->reads = 0;
  const ClassLoss loss = class_loss(tape, logits, ids);
  gather(tape, table, ids.slice(0, 0, 2));
  gather(tape, table, Index(there, 0, 5));
  EXPECT_ERROR(gather(tape, table, ids), ErrorCode::bad_input, "index -1", "index[2]", "0 to 4");
  EXPECT_ERROR(class_loss(tape, logits.slice(1, 0, 4), ids), ErrorCode::bad_input, "target 4 of row 0", "targets[0]",
               "");
  EXPECT_EQ(memory_->reads, 0);
  gather(tape, table, there);
  EXPECT_EQ(memory_->reads, 1);
  EXPECT_EQ(loss.asked.item(), 3);
  EXPECT_ERROR(gather(tape, table.slice(0, 0, 4), Index(there, 0, 5)), ErrorCode::bad_input, "index 4", "index[0]", "");
}

TEST_F(OnDevice, HostCodeThatTouchesItDies) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_DEATH({ static_cast<void>(*static_cast<volatile float*>(Tensor::zeros(device_, {1}).raw())); },
               "outside of a kernel: HostCodeThatTouchesItDies");
}

// Not built, or no card of that number: the words differ.
TEST(Context, ACudaDeviceThatIsNotThereIsRefused) {
  const bool has_cards = devices().back().device == Device::cuda && !devices().back().list.empty();
  EXPECT_ERROR(Context({.device = Device::cuda, .index = 1000}), has_cards ? ErrorCode::usage : ErrorCode::unsupported,
               has_cards                ? "card 1000 of "
               : is_built(Device::cuda) ? "no CUDA: "
                                        : "this build has no backend for CUDA",
               "device", has_cards ? "--device cuda" : "--device cpu");
}

// Another context, a product or a copy leaves the process as it was: how many threads to use is nobody else's matter.
TEST(Context, ThreadsAreItsOwn) {
  const int before = omp_get_max_threads();
  const Context wide({.threads = before + 3}), narrow({.threads = 1});
  EXPECT_EQ(omp_get_max_threads(), before);
  EXPECT_EQ(wide.memory()->threads(), before + 3);
  EXPECT_EQ(narrow.memory()->threads(), 1);
  const Tensor a = random(wide, {65, 33}, 1, DType::f32), b = random(wide, {33, 17}, 2, DType::f32);
  gemm::multiply(wide, a, b);
  gemm::multiply(narrow, a, b);
  EXPECT_EQ(omp_get_max_threads(), before);
}

}  // namespace
}  // namespace fovea::testing
