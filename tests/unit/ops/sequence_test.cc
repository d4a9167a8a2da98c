// The operations along sequences against their definitions, and what the laws do not cover: refusals, empty inputs.

#include "ops/sequence.h"

#include <gtest/gtest.h>

#include <cmath>

#include "support/expect_error.h"
#include "support/gradcheck.h"

namespace fovea::testing {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

class SequenceOps : public ::testing::Test {
 protected:
  Tensor draw(const Shape& shape, DType dtype = DType::f64) { return random(context_, shape, ++seed_, dtype); }
  Tensor values(const Shape& shape, const std::vector<double>& v) { return Tensor::from<double>(context_, shape, v); }
  Tensor ids(const Shape& shape, const std::vector<std::int32_t>& v) { return integers(context_, shape, v); }
  std::vector<double> list(const Var& x) const { return x.value().to_vector<double>(); }

  Context context_ = poisoned();
  Tape tape_{context_};
  std::uint64_t seed_ = 70;
};

TEST_F(SequenceOps, DiagonalsByHand) {
  const Tensor q = values({1, 3, 1, 1}, {1, 2, 3}), k = values({1, 3, 1, 1}, {5, 7, 11});
  const Diagonals along{{0, -1, 2}, {}, false};
  EXPECT_EQ(list(diagonals(tape_, q, k, along, {.scale = 2.0})),
            (std::vector<double>{10, -kInfinity, 22, 28, 20, -kInfinity, 66, 42, -kInfinity}));
  EXPECT_EQ(list(diagonals(tape_, q, k, {{4}, {}, true})), (std::vector<double>{7, 22, 15}));
  EXPECT_EQ(list(diagonals(tape_, q, k, {{-1}, {}, false}, {.outside = 0.0})), (std::vector<double>{0, 10, 21}));
  const Tensor p = values({1, 3, 1, 3}, {1, NAN, 2, 3, 4, NAN, 5, 6, NAN});  // NaN: outside, never read
  EXPECT_EQ(list(mix_diagonals(tape_, p, k, along)), (std::vector<double>{27, 41, 97}));
}

// Packed, then padded with NaN: nothing leaks in, and padding gets the value for "outside".
TEST_F(SequenceOps, DiagonalsStayInTheirSequence) {
  const Tensor q = values({1, 4, 1, 1}, {1, 1, 1, NAN}), k = values({1, 4, 1, 1}, {2, 3, 4, NAN});
  for (bool ring : {false, true}) {
    const Var leaf = Var::leaf(k);
    const Diagonals along{{1}, {{}, {0, 2, 3}}, ring};
    const Var s = diagonals(tape_, q, leaf, along);
    EXPECT_EQ(list(s), ring ? (std::vector<double>{3, 2, 4, -kInfinity})
                            : (std::vector<double>{3, -kInfinity, -kInfinity, -kInfinity}));
    const Var y = mix_diagonals(tape_, softmax(tape_, s), leaf, along);
    EXPECT_EQ(list(y), ring ? (std::vector<double>{3, 2, 4, 0}) : (std::vector<double>{3, 0, 0, 0}));
    tape_.backward(sum(tape_, y));
    EXPECT_EQ(leaf.grad().to_vector<double>(),
              ring ? (std::vector<double>{1, 1, 1, 0}) : (std::vector<double>{0, 1, 0, 0}));
  }
}

TEST_F(SequenceOps, DiagonalsOfNothing) {
  const Var q = Var::leaf(draw({2, 0, 2, 3}));
  EXPECT_EQ(diagonals(tape_, q, q, {{0, 1}, {}, false}).shape(), (Shape{2, 0, 2, 2}));
  const Var x = Var::leaf(draw({1, 2, 1, 3}));
  const Var none = diagonals(tape_, x, x, {{}, {}, false});
  EXPECT_EQ(none.shape(), (Shape{1, 2, 1, 0}));
  const Var y = mix_diagonals(tape_, none, x, {{}, {}, false});
  EXPECT_EQ(list(y), std::vector<double>(6, 0.0));
  tape_.backward(sum(tape_, y));
  EXPECT_EQ(x.grad().to_vector<double>(), std::vector<double>(6, 0.0));
}

// Views with strides, as the split of one product into q, k and v gives them.
TEST_F(SequenceOps, DiagonalsTakeViews) {
  const Tensor both = draw({2, 5, 3, 14});
  const Tensor q = both.slice(3, 0, 7), k = both.slice(3, 7, 14), turned = draw({2, 7, 3, 5}).transpose(1, 3);
  const Diagonals along{{-1, 0, 2}, {}, false};
  EXPECT_TRUE(same_bits(diagonals(tape_, q, k, along).value(),
                        diagonals(tape_, q.clone(context_), k.clone(context_), along).value()));
  EXPECT_TRUE(same_bits(diagonals(tape_, turned, k, along).value(),
                        diagonals(tape_, turned.clone(context_), k, along).value()));
}

TEST_F(SequenceOps, WrongDiagonals) {
  const Var x = draw({1, 4, 2, 3});
  EXPECT_ERROR(diagonals(tape_, x, draw({1, 5, 2, 3}), {}), ErrorCode::shape, "(1, 4, 2, 3) and f64(1, 5, 2, 3)", "",
               "multiple");
  EXPECT_ERROR(diagonals(tape_, x, draw({1, 4, 3, 3}), {}), ErrorCode::shape, "(1, 4, 3, 3)", "", "multiple");
  EXPECT_ERROR(diagonals(tape_, x, draw({1, 4, 2, 5}), {}), ErrorCode::shape, "5", "", "");
  EXPECT_ERROR(diagonals(tape_, x, x, {{std::int64_t{1} << 40}, {}, false}), ErrorCode::usage, "offset", "offsets[0]",
               "");
  EXPECT_ERROR(diagonals(tape_, x, x, {{0}, {{9}, {}}, false}), ErrorCode::shape, "length 9", "rows", "");
  EXPECT_ERROR(mix_diagonals(tape_, x, x, {{0, 1}, {}, false}), ErrorCode::shape, "3 weights for 2", "", "");
}

}  // namespace
}  // namespace fovea::testing
