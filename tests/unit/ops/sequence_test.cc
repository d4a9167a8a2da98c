// The operations along sequences against their definitions, and what the laws do not cover: refusals, empty inputs.

#include "ops/sequence.h"

#include <gtest/gtest.h>

#include <cmath>

#include "ops/features.h"
#include "support/expect_error.h"
#include "support/gradcheck.h"
#include "unit/ops/ops_fixture.h"

namespace fovea::testing {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

class SequenceOps : public OpsTest {
 protected:
  SequenceOps() : OpsTest(70) {}
};

// More features than the caches hold are written past them.
TEST_F(SequenceOps, FeaturesOfLongSequencesAreThoseOfTheirParts) {
  const std::int64_t n = 4300, half = 2112;
  const Tensor x = draw({1, n, 2, 8}, DType::f32), directions = draw({1, 256, 8}, DType::f32);
  const auto of = [&](std::int64_t begin, std::int64_t end) {
    FeatureOptions options;
    options.rows = {{0, 0, end - begin}};
    return features(tape_, x.slice(1, begin, end), directions, options).value();
  };
  const Tensor whole = of(0, n);
  EXPECT_TRUE(same_bits(whole.slice(1, 0, half).contiguous(context_), of(0, half)));
  EXPECT_TRUE(same_bits(whole.slice(1, half, n).contiguous(context_), of(half, n)));
}

TEST_F(SequenceOps, DiagonalsByHand) {
  const Tensor q = values({1, 3, 1, 1}, {1, 2, 3}), k = values({1, 3, 1, 1}, {5, 7, 11});
  const Diagonals along{{0, -1, 2}, {}, false};
  EXPECT_EQ(list(diagonal_scores(tape_, q, k, along, {.scale = 2.0})),
            (std::vector<double>{10, -kInfinity, 22, 28, 20, -kInfinity, 66, 42, -kInfinity}));
  EXPECT_EQ(list(diagonal_scores(tape_, q, k, {{4}, {}, true})), (std::vector<double>{7, 22, 15}));
  EXPECT_EQ(list(diagonal_scores(tape_, q, k, {{-1}, {}, false}, {.outside = 0.0})), (std::vector<double>{0, 10, 21}));
  const Tensor p = values({1, 3, 1, 3}, {1, NAN, 2, 3, 4, NAN, 5, 6, NAN});  // NaN: outside, never read
  EXPECT_EQ(list(mix_diagonals(tape_, p, k, along)), (std::vector<double>{27, 41, 97}));
}

// Packed, then padded with NaN: nothing leaks in, and padding gets the value for "outside".
TEST_F(SequenceOps, DiagonalsStayInTheirSequence) {
  const Tensor q = values({1, 4, 1, 1}, {1, 1, 1, NAN}), k = values({1, 4, 1, 1}, {2, 3, 4, NAN});
  for (bool ring : {false, true}) {
    const Var leaf = Var::leaf(k);
    const Diagonals along{{1}, {{}, {0, 2, 3}}, ring};
    const Var s = diagonal_scores(tape_, q, leaf, along);
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
  EXPECT_EQ(diagonal_scores(tape_, q, q, {{0, 1}, {}, false}).shape(), (Shape{2, 0, 2, 2}));
  const Var x = Var::leaf(draw({1, 2, 1, 3}));
  const Var none = diagonal_scores(tape_, x, x, {{}, {}, false});
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
  EXPECT_TRUE(same_bits(diagonal_scores(tape_, q, k, along).value(),
                        diagonal_scores(tape_, q.clone(context_), k.clone(context_), along).value()));
  EXPECT_TRUE(same_bits(diagonal_scores(tape_, turned, k, along).value(),
                        diagonal_scores(tape_, turned.clone(context_), k, along).value()));
}

TEST_F(SequenceOps, WrongDiagonals) {
  const Var x = draw({1, 4, 2, 3});
  EXPECT_ERROR(diagonal_scores(tape_, x, draw({1, 5, 2, 3}), {}), ErrorCode::shape, "(1, 4, 2, 3) and f64(1, 5, 2, 3)",
               "", "multiple");
  EXPECT_ERROR(diagonal_scores(tape_, x, draw({1, 4, 3, 3}), {}), ErrorCode::shape, "(1, 4, 3, 3)", "", "multiple");
  EXPECT_ERROR(diagonal_scores(tape_, x, draw({1, 4, 2, 5}), {}), ErrorCode::shape, "5", "", "");
  EXPECT_ERROR(diagonal_scores(tape_, x, x, {{std::int64_t{1} << 40}, {}, false}), ErrorCode::usage, "offset",
               "offsets[0]", "");
  EXPECT_ERROR(diagonal_scores(tape_, x, x, {{0}, {{9}, {}}, false}), ErrorCode::shape, "length 9", "rows", "");
  EXPECT_ERROR(mix_diagonals(tape_, x, x, {{0, 1}, {}, false}), ErrorCode::shape, "3 weights for 2", "", "");
}

TEST_F(SequenceOps, CumsumStartsAgainWithEverySequence) {
  const Var x = Var::leaf(values({1, 5, 1}, {1, 2, 3, 4, NAN}));
  const Var y = cumsum(tape_, x, {{}, {0, 1, 4}});
  EXPECT_EQ(list(y), (std::vector<double>{1, 2, 5, 9, 0}));
  tape_.backward(y, values({1, 5, 1}, {1, 10, 100, 1000, NAN}));
  EXPECT_EQ(x.grad().to_vector<double>(), (std::vector<double>{1, 1110, 1100, 1000, 0}));
  EXPECT_EQ(cumsum(tape_, draw({2, 0, 3})).shape(), (Shape{2, 0, 3}));
  EXPECT_EQ(cumsum(tape_, draw({2, 3, 0})).shape(), (Shape{2, 3, 0}));
  EXPECT_ERROR(cumsum(tape_, draw({2})), ErrorCode::shape, "(2,)", "", "(b, n, ...)");
}

// Half types sum in f32: a thousand small terms are not lost in a large one.
TEST_F(SequenceOps, CumsumIsWide) {
  const Tensor x = Tensor::empty(context_, {1, 1001, 1}, DType::bf16);
  x.fill(1.0);
  EXPECT_EQ(cumsum(tape_, x).value().to_vector<double>().back(), 1000.0);  // 1001 rounded to eight bits
}

TEST_F(SequenceOps, PaddingIsFilled) {
  const Var x = Var::leaf(values({2, 2, 1}, {1, NAN, NAN, NAN}));
  const Var y = fill_padding(tape_, x, {{1, 0}, {}}, -kInfinity);
  EXPECT_EQ(list(y), (std::vector<double>{1, -kInfinity, -kInfinity, -kInfinity}));
  tape_.backward(y, values({2, 2, 1}, {3, NAN, NAN, NAN}));
  EXPECT_EQ(x.grad().to_vector<double>(), (std::vector<double>{3, 0, 0, 0}));
  EXPECT_EQ(fill_padding(tape_, x, {}).value().raw(), x.value().raw());
}

TEST_F(SequenceOps, SegmentsOfTheValidLength) {
  const Tensor x = values({3, 5, 1, 1}, {1, 2, 3, 4, 5, 10, 20, NAN, NAN, NAN, NAN, NAN, NAN, NAN, NAN});
  const Var leaf = Var::leaf(x);
  const auto [means, rows] = segment_mean(tape_, leaf, 3, {{5, 2, 0}, {}});
  EXPECT_EQ(list(means), (std::vector<double>{1.5, 3.5, 5, 10, 20, 0, 0, 0, 0}));
  EXPECT_EQ(rows.lengths, (std::vector<std::int32_t>{3, 2, 0}));
  tape_.backward(means, values({3, 3, 1, 1}, {2, 4, 8, 1, 1, NAN, NAN, NAN, NAN}));
  EXPECT_EQ(leaf.grad().to_vector<double>(), (std::vector<double>{1, 1, 2, 2, 8, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0}));
  const auto packed = segment_mean(tape_, x.slice(0, 0, 1), 2, {{}, {0, 3, 4}});
  EXPECT_EQ(list(packed.means), (std::vector<double>{1.5, 3, 4, 0}));
  EXPECT_EQ(packed.rows.lengths, (std::vector<std::int32_t>{2, 1}));
  EXPECT_ERROR(segment_mean(tape_, x, 0), ErrorCode::usage, "0 segments", "segments", "");
  EXPECT_ERROR(segment_mean(tape_, draw({2, 3, 4}), 2), ErrorCode::shape, "(2, 3, 4)", "", "heads");
}

TEST_F(SequenceOps, RowsTakenAndPutBack) {
  const Tensor x = draw({2, 4, 2, 3});
  std::vector<std::int32_t> turn;
  for (std::int32_t i = 0; i < 16; ++i) turn.push_back((i / 2 * 3 + i % 2) % 4);
  const Tensor index = ids({2, 4, 2}, turn);
  const Var taken = take_rows(tape_, x, index);
  EXPECT_EQ(list(taken.value().select(2, 1)).front(), list(x.slice(1, 1, 2).select(2, 1)).front());
  const Tensor nothing = Tensor::empty(context_, x.shape(), DType::f64);  // NaN: every row is put
  EXPECT_TRUE(same_bits(put_rows(tape_, nothing, index, taken).value(), x));
  EXPECT_TRUE(
      same_bits(take_rows(tape_, x.transpose(1, 2).clone(context_).transpose(1, 2), index).value(), taken.value()));
  EXPECT_EQ(take_rows(tape_, x, ids({2, 0, 2}, {})).shape(), (Shape{2, 0, 2, 3}));
}

TEST_F(SequenceOps, WrongRows) {
  const Var x = draw({1, 3, 1, 2});
  EXPECT_ERROR(take_rows(tape_, x, ids({1, 1, 1}, {3})), ErrorCode::bad_input, "row 3 of 3", "index[0]", "0 to 2");
  EXPECT_ERROR(take_rows(tape_, x, ids({1, 1, 1}, {-2})), ErrorCode::bad_input, "row -2", "index[0]", "-1 for none");
  EXPECT_ERROR(take_rows(tape_, x, ids({1, 1, 2}, {0, 0})), ErrorCode::shape, "(1, 1, 2)", "index", "(b, m, heads)");
  EXPECT_ERROR(take_rows(tape_, x, draw({1, 1, 1})), ErrorCode::usage, "f64", "", "");
  EXPECT_ERROR(put_rows(tape_, x, ids({1, 2, 1}, {1, 1}), draw({1, 2, 1, 2})), ErrorCode::bad_input, "row 1 is put",
               "index[1]", "");
  EXPECT_ERROR(put_rows(tape_, x, ids({1, 2, 1}, {1, 2}), draw({1, 1, 1, 2})), ErrorCode::shape, "(1, 1, 1, 2)",
               "values", "(1, 2, 1, 2)");
}

TEST_F(SequenceOps, TopIndicesByPosition) {
  const Tensor scores = values({1, 6, 1}, {3, NAN, 5, 3, 3, -kInfinity});
  const auto top = [&](const Tensor& s, std::int64_t count, const Sequences& rows = {}) {
    return top_indices(context_, s, count, rows).to_vector<std::int32_t>();
  };
  using Ids = std::vector<std::int32_t>;
  EXPECT_EQ(top(scores, 3), (Ids{0, 2, 3}));
  EXPECT_EQ(top(scores, 5), (Ids{0, 2, 3, 4, 5}));
  EXPECT_EQ(top(scores, 8), (Ids{0, 1, 2, 3, 4, 5, -1, -1}));
  EXPECT_EQ(top(scores, 0), Ids{});
  EXPECT_EQ(top(scores, 2, {{}, {0, 1, 1, 5}}), (Ids{0, -1, -1, -1, 2, 3}));
  const Tensor heads = values({2, 2, 2}, {1, 9, 2, 8, 7, 7, 5, 5});
  EXPECT_EQ(top(heads, 1), (Ids{1, 0, 0, 0}));
  EXPECT_EQ(top(heads, 1, {{1, 0}, {}}), (Ids{0, 0, -1, -1}));
  EXPECT_EQ(top_indices(context_, scores, 2, {{}, {0, 3, 6}}).shape(), (Shape{1, 4, 1}));
  EXPECT_ERROR(top(scores, -1), ErrorCode::usage, "-1 rows", "count", "");
  EXPECT_ERROR(top(draw({3}), 1), ErrorCode::shape, "(3,)", "", "(b, n, heads)");
}

TEST_F(SequenceOps, ArgsortIsStable) {
  const std::vector<std::int64_t> keys{5, 1, 2, 1, 5, 0, 2, 1, std::int64_t{1} << 40, -7};
  const Tensor k = Tensor::from<std::int64_t>(context_, {1, 5, 2}, keys);
  using Ids = std::vector<std::int32_t>;
  const auto order = [&](const Sequences& rows) { return argsort(context_, k, rows).to_vector<std::int32_t>(); };
  EXPECT_EQ(order({}), (Ids{1, 4, 3, 2, 0, 0, 2, 1, 4, 3}));
  EXPECT_EQ(order({{}, {0, 3}}), (Ids{1, 2, 0, 0, 2, 1, 3, 3, 4, 4}));
  EXPECT_ERROR(argsort(context_, draw({1, 2, 1})), ErrorCode::usage, "f64", "", "");
}

TEST_F(SequenceOps, ConvolutionsByHand) {
  const Tensor x = values({1, 4, 1, 1}, {1, 2, 3, NAN}), w = values({1, 3}, {100, 10, 1});
  EXPECT_EQ(list(depthwise_conv(tape_, x, w, {false, {{3}, {}}})), (std::vector<double>{12, 123, 230, 0}));
  EXPECT_EQ(list(depthwise_conv(tape_, x, w, {true, {{3}, {}}})), (std::vector<double>{1, 12, 123, 0}));
  EXPECT_EQ(list(depthwise_conv(tape_, x, w, {true, {{}, {0, 2, 3}}})), (std::vector<double>{1, 12, 3, 0}));
  EXPECT_EQ(depthwise_conv(tape_, draw({2, 0, 1, 3}), w).shape(), (Shape{2, 0, 1, 3}));
  EXPECT_ERROR(depthwise_conv(tape_, x, draw({2, 3})), ErrorCode::shape, "f64(2, 3)", "", "taps");
  EXPECT_ERROR(depthwise_conv(tape_, x, draw({1, 0})), ErrorCode::shape, "(1, 0)", "", "taps");
  EXPECT_ERROR(depthwise_conv(tape_, x, draw({1, 2, 3})), ErrorCode::shape, "(1, 2, 3)", "", "taps");
}

}  // namespace
}  // namespace fovea::testing
