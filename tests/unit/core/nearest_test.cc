#include "core/nearest.h"

#include <gtest/gtest.h>

#include <vector>

#include "support/expect_error.h"

namespace fovea {
namespace {

const std::vector<std::string_view> kNames = {"softmax", "linear", "norm", "diag", "rela", "transnormer-t2"};

TEST(Nearest, FindsTyposSwapsAndCase) {
  EXPECT_EQ(nearest_name("sofmax", kNames), "softmax");
  EXPECT_EQ(nearest_name("nrom", kNames), "norm");
  EXPECT_EQ(nearest_name("Diag", kNames), "diag");
  EXPECT_EQ(nearest_name("transnormer_t2", kNames), "transnormer-t2");
}

TEST(Nearest, FinishesAWord) { EXPECT_EQ(nearest_name("transn", kNames), "transnormer-t2"); }

TEST(Nearest, OffersNothingWhenNothingIsNear) {
  EXPECT_EQ(nearest_name("performer", kNames), "");
  EXPECT_EQ(nearest_name("", kNames), "");
  EXPECT_EQ(nearest_name(std::string(1000, 'n'), kNames), "");
  EXPECT_EQ(nearest_name("norm", {}), "");
}

TEST(Nearest, HintNamesOneOrAll) {
  EXPECT_EQ(name_hint("lineer", kNames), "\"linear\"?");
  EXPECT_EQ(name_hint("xyz", kNames), "one of softmax, linear, norm, diag, rela, transnormer-t2");
  EXPECT_EQ(name_hint("xyz", {}), "");
}

TEST(PlaceOfName, FindsOrSaysWhatIsUnknown) {
  EXPECT_EQ(place_of_name("linear", kNames, "mechanism", "--attention"), 1u);
  EXPECT_ERROR(place_of_name("lineer", kNames, "mechanism", "--attention"), ErrorCode::usage,
               "unknown mechanism \"lineer\"", "--attention", "\"linear\"?");
}

}  // namespace
}  // namespace fovea
