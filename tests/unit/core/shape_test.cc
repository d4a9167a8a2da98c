#include "fovea/shape.h"

#include <gtest/gtest.h>

#include <vector>

#include "support/expect_error.h"

namespace fovea {
namespace {

TEST(Shape, Basics) {
  const Shape s{2, 3, 4};
  EXPECT_EQ(s.rank(), 3);
  EXPECT_EQ(s.dim(-1), 4);
  EXPECT_EQ(s[0], 2);
  EXPECT_EQ(s.numel(), 24);
  EXPECT_EQ(s.text(), "(2, 3, 4)");
  EXPECT_EQ(s.with(-2, 7), (Shape{2, 7, 4}));
  EXPECT_NE(s, (Shape{2, 3}));
  EXPECT_EQ((Shape{5}.text()), "(5,)");
}

TEST(Shape, ScalarAndEmpty) {
  EXPECT_EQ(Shape().numel(), 1);
  EXPECT_EQ(Shape().text(), "()");
  EXPECT_EQ((Shape{3, 0, 5}.numel()), 0);
}

TEST(Shape, RefusesWhatCannotBe) {
  EXPECT_ERROR((Shape{2, -1}), ErrorCode::shape, "negative size -1 on axis 1", "", "");
  EXPECT_ERROR((Shape{1, 1, 1, 1, 1, 1, 1}), ErrorCode::shape, "at most 6 axes, got 7", "", "");
  const std::int64_t huge = std::int64_t{1} << 32;
  EXPECT_ERROR((Shape{huge, huge}), ErrorCode::shape, "overflows", "", "");
  EXPECT_ERROR((Shape{huge, 0, huge}), ErrorCode::shape, "overflows", "",
               "");  // a slice of it must not overflow either
}

}  // namespace
}  // namespace fovea
