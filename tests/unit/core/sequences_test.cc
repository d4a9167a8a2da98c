#include "fovea/sequences.h"

#include <gtest/gtest.h>

#include "support/expect_error.h"

namespace fovea {
namespace {

TEST(Sequences, EmptyMeansWholeItems) {
  const auto rows = Sequences{}.rows(3, 5, "x");
  ASSERT_EQ(rows.size(), 3u);
  EXPECT_EQ(rows[2].batch, 2);
  EXPECT_EQ(rows[2].begin, 0);
  EXPECT_EQ(rows[2].count, 5);
}

TEST(Sequences, Lengths) {
  const auto rows = Sequences{{5, 0, 2}, {}}.rows(3, 5, "x");
  EXPECT_EQ(rows[1].count, 0);
  EXPECT_EQ(rows[2].batch, 2);
  EXPECT_EQ(rows[2].count, 2);
}

TEST(Sequences, Packed) {
  const auto rows = Sequences{{}, {0, 3, 3, 8}}.rows(1, 9, "x");
  ASSERT_EQ(rows.size(), 3u);
  EXPECT_EQ(rows[1].count, 0);
  EXPECT_EQ(rows[2].begin, 3);
  EXPECT_EQ(rows[2].count, 5);
}

TEST(Sequences, RefusalsNameTheField) {
  EXPECT_ERROR((Sequences{{1}, {0, 1}}.rows(1, 5, "keys")), ErrorCode::usage, "not both", "keys", "");
  EXPECT_ERROR((Sequences{{1, 2}, {}}.rows(3, 5, "keys")), ErrorCode::shape, "2 lengths for a batch of 3", "keys", "");
  EXPECT_ERROR((Sequences{{1, 6}, {}}.rows(2, 5, "keys")), ErrorCode::shape, "length 6 outside [0, 5]", "keys[1]", "");
  EXPECT_ERROR((Sequences{{-1}, {}}.rows(1, 5, "keys")), ErrorCode::shape, "length -1", "keys[0]", "");
  EXPECT_ERROR((Sequences{{}, {0, 5}}.rows(2, 5, "keys")), ErrorCode::shape, "batch of 1, got 2", "keys", "");
  EXPECT_ERROR((Sequences{{}, {1, 5}}.rows(1, 5, "keys")), ErrorCode::shape, "start at 0", "keys", "");
  EXPECT_ERROR((Sequences{{}, {0, 6}}.rows(1, 5, "keys")), ErrorCode::shape, "at most at 5", "keys", "");
  EXPECT_ERROR((Sequences{{}, {0, 3, 2}}.rows(1, 5, "keys")), ErrorCode::shape, "must not decrease", "keys[2]", "");
}

}  // namespace
}  // namespace fovea
