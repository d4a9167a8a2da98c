#include <gtest/gtest.h>

#include "fovea/ops.h"
#include "support/gradcheck.h"

namespace fovea::testing {
namespace {

// A block with dropout and a wide middle.
class Block : public Segment {
 public:
  Block(Context& context, std::uint64_t seed)
      : in_(Var::leaf(random(context, {16, 256}, seed, DType::f32, 0.2))),
        out_(Var::leaf(random(context, {256, 16}, seed + 1, DType::f32, 0.05))) {}

  std::vector<Var> run(Tape& tape, std::span<const Var> inputs) const override {
    const Var hidden = dropout(tape, linear(tape, inputs[0], in_, {}, Activation::gelu), 0.3);
    return {add(tape, inputs[0], linear(tape, hidden, out_))};
  }
  const Var& in() const { return in_; }
  const Var& out() const { return out_; }

 private:
  Var in_, out_;
};

struct Outcome {
  std::vector<Tensor> gradients;
  std::size_t peak;  // of what the step kept
};

Outcome train(bool again, int layers) {
  Context context = poisoned();
  std::vector<std::shared_ptr<Block>> blocks;
  for (int i = 0; i < layers; ++i)
    blocks.push_back(std::make_shared<Block>(context, 10 * static_cast<std::uint64_t>(i)));
  const Var x = Var::leaf(random(context, {300, 16}, 5, DType::f32));
  context.allocator()->reset_peaks();
  Tape tape(context, {.record = true, .training = true, .stream = 40});
  Var y = x;
  for (const auto& block : blocks)
    y = again ? recompute(tape, block, std::span(&y, 1)).front() : block->run(tape, std::span(&y, 1)).front();
  tape.backward(mean(tape, mul(tape, y, y)));
  Outcome outcome{{x.grad().clone(context)}, context.allocator()->use(Lifetime::step).peak};
  for (const auto& block : blocks)
    for (const Var* w : {&block->in(), &block->out()}) outcome.gradients.push_back(w->grad().clone(context));
  return outcome;
}

TEST(Recompute, GivesTheSameBitsWithDropout) {
  const Outcome plain = train(false, 4), recomputed = train(true, 4);
  ASSERT_EQ(plain.gradients.size(), recomputed.gradients.size());
  for (std::size_t i = 0; i < plain.gradients.size(); ++i)
    EXPECT_TRUE(same_bits(plain.gradients[i], recomputed.gradients[i])) << i;
}

TEST(Recompute, SavesMemory) {
  const std::size_t plain = train(false, 8).peak, recomputed = train(true, 8).peak;
  EXPECT_LT(recomputed, plain / 3);
}

TEST(Recompute, AgreesWithFiniteDifferences) {
  class Mixed : public Segment {
   public:
    std::vector<Var> run(Tape& tape, std::span<const Var> v) const override {
      return {softmax(tape, v[0]), mul(tape, dropout(tape, v[0], 0.5), v[1])};
    }
  };
  Context context = poisoned();
  Gradcheck check;
  check.tape = {.record = true, .training = true, .stream = 9};
  expect_gradients(
      context, Function([](Tape& tape, std::span<const Var> v) {
        const Var inner[] = {activate(tape, v[0], Activation::tanh), v[1]};
        std::vector<Var> outputs = recompute(tape, std::make_shared<Mixed>(), inner);
        outputs.push_back(dropout(tape, v[0], 0.5));  // the streams after a segment do not depend on how it ran
        return outputs;
      }),
      {random(context, {3, 5}, 1), random(context, {3, 5}, 2)}, check);
}

// A segment one of whose outputs nobody used.
TEST(Recompute, UnusedOutputsAreFine) {
  class Two : public Segment {
   public:
    std::vector<Var> run(Tape& tape, std::span<const Var> v) const override {
      return {scale(tape, v[0], 2.0), scale(tape, v[0], 5.0)};
    }
  };
  Context context = poisoned();
  const Var x = Var::leaf(random(context, {3}, 1));
  Tape tape(context);
  const std::vector<Var> outputs = recompute(tape, std::make_shared<Two>(), std::span(&x, 1));
  tape.backward(sum(tape, outputs[1]));
  for (double g : x.grad().to_vector<double>()) EXPECT_DOUBLE_EQ(g, 5.0);
}

}  // namespace
}  // namespace fovea::testing
