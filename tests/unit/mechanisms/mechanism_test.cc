#include "fovea/mechanism.h"

#include <gtest/gtest.h>

#include <cmath>

#include "fovea/error.h"
#include "mechanisms/tiled.h"

namespace fovea {
namespace {

std::string error_text(const std::string& text) {
  try {
    Mechanism::parse(text);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::usage);
    return error.what();
  }
  return "no error";
}

void expect_says(const std::string& text, const std::string& words) {
  EXPECT_NE(error_text(text).find(words), std::string::npos) << error_text(text);
}

TEST(Mechanism, TextAndParseAreInverse) {
  for (const char* text : {"softmax", "diag", "diag:block=32", "diag:block=32,weights=rela", "norm:map=elu,eps=0.001"})
    EXPECT_EQ(Mechanism::parse(text).text(), text);
  EXPECT_EQ(Mechanism::parse("diag:block=64").text(), "diag") << "defaults are left out";
  EXPECT_EQ(Mechanism::parse("diag:block=8").integer("block"), 8);
}

TEST(Mechanism, WrongNamesAndValuesAreExplained) {
  expect_says("sotfmax", "softmax");
  expect_says("diag:blok=3", "block");
  expect_says("diag:block=0", "between 1 and 65536");
  expect_says("diag:block=many", "whole number");
  expect_says("diag:weights=sigmoid", "softmax, rela");
  expect_says("norm:eps=nan", "between");
  expect_says("norm:eps", "parameter=value");
  expect_says("softmax:x=1", "no parameter \"x\"");
}

TEST(Mechanism, SettingsAreTyped) {
  const std::vector<Mechanism::Setting> whole{{"eps", std::int64_t{1}}};
  EXPECT_EQ(Mechanism("norm", whole).number("eps"), 1.0) << "a whole number is a number";
  for (const ParameterValue& four :
       {ParameterValue(std::int64_t{4}), ParameterValue(4.0), ParameterValue(std::string("4"))}) {
    const std::vector<Mechanism::Setting> order{{"order", four}};
    EXPECT_EQ(Mechanism("taylor", order).choice("order"), "4") << "a number is the choice of that name";
  }
  const std::vector<Mechanism::Setting> odd{{"order", std::int64_t{3}}}, flag{{"order", true}};
  EXPECT_THROW(Mechanism("taylor", odd), Error);
  EXPECT_THROW(Mechanism("taylor", flag), Error);
  const std::vector<Mechanism::Setting> text{{"eps", std::string("small")}};
  EXPECT_THROW(Mechanism("norm", text), Error);
}

TEST(Mechanism, ThoseThatDecodeSayHow) {
  for (const MechanismKind* kind : mechanism_kinds())
    EXPECT_EQ(kind->step.run != nullptr, kind->features.has(Feature::step)) << kind->name;
}

TEST(Mechanism, ASettingMayTakeAFeatureAway) {
  EXPECT_TRUE(Mechanism("diag").supports(Feature::lse));
  EXPECT_FALSE(Mechanism::parse("diag:weights=rela").supports(Feature::lse));
  EXPECT_FALSE(Mechanism("norm").supports(Feature::dropout));
}

TEST(Alibi, SlopesOfEightAndTwelveHeads) {
  const std::vector<double> eight = alibi_slopes(8);
  for (int h = 0; h < 8; ++h) EXPECT_EQ(eight[static_cast<std::size_t>(h)], std::exp2(-static_cast<double>(h + 1)));
  const std::vector<double> twelve = alibi_slopes(12);
  ASSERT_EQ(twelve.size(), 12u);
  EXPECT_DOUBLE_EQ(twelve[8], std::exp2(-0.5));
  EXPECT_DOUBLE_EQ(twelve[9], std::exp2(-1.5));
  EXPECT_DOUBLE_EQ(twelve[11], std::exp2(-3.5));
}

}  // namespace
}  // namespace fovea
