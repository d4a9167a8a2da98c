#include "fovea/dtype.h"

#include <gtest/gtest.h>

#include "support/expect_error.h"

namespace fovea {
namespace {

constexpr DType kAll[] = {DType::f32, DType::bf16, DType::f16, DType::f64, DType::i32, DType::i64, DType::u8};

TEST(DType, NamesAndSizesAgreeWithTheTypes) {
  for (DType dtype : kAll) {
    EXPECT_EQ(dtype_from_name(name_of(dtype)), dtype);
    visit(dtype, [&]<class T>() {
      EXPECT_EQ(dtype_of<T>, dtype);
      EXPECT_EQ(sizeof(T), size_of(dtype));
      EXPECT_EQ(is_float(dtype), !std::is_integral_v<T>);
    });
  }
}

TEST(DType, VisitFloatRefusesIntegers) {
  EXPECT_EQ((visit_float(DType::f16, []<class T>() { return sizeof(T); })), 2u);
  EXPECT_ERROR((visit_float(DType::i32, []<class T>() { return sizeof(T); })), ErrorCode::usage, "got i32", "", "");
}

TEST(DType, UnknownNamesListTheKnownOnes) {
  EXPECT_ERROR(dtype_from_name("fp32"), ErrorCode::usage, "\"fp32\"", "", "bf16");
  EXPECT_ERROR(dtype_from_name(""), ErrorCode::usage, "unknown dtype", "", "f32");
}

TEST(DType, WideTypes) {
  EXPECT_TRUE((std::is_same_v<Wide<bf16>, float>));
  EXPECT_TRUE((std::is_same_v<Wide<double>, double>));
}

TEST(DType, VisitBool) {
  EXPECT_EQ(visit_bool(true, [](auto flag) { return decltype(flag)::value ? 1 : 2; }), 1);
  EXPECT_EQ(visit_bool(false, [](auto flag) { return decltype(flag)::value ? 1 : 2; }), 2);
}

TEST(Error, HasThreeLinesAndNests) {
  const Error error(ErrorCode::shape, "heads do not divide the width", "heads", "a divisor of 64");
  EXPECT_STREQ(error.what(), "heads do not divide the width\n  at      heads\n  try     a divisor of 64");
  EXPECT_EQ(error.inside("layers[1]").where(), "layers[1].heads");
  EXPECT_EQ(Error(ErrorCode::usage, "x", "[2]").inside("layers").where(), "layers[2]");
  EXPECT_EQ(Error(ErrorCode::usage, "x").inside("model").where(), "model");
  EXPECT_EQ(error.inside("model").hint(), "a divisor of 64");
}

TEST(Error, ExitCodes) {
  EXPECT_EQ(exit_code(ErrorCode::usage), 2);
  EXPECT_EQ(exit_code(ErrorCode::bad_input), 3);
  EXPECT_EQ(exit_code(ErrorCode::interrupted), 130);
  EXPECT_EQ(exit_code(ErrorCode::io), 1);
}

}  // namespace
}  // namespace fovea
