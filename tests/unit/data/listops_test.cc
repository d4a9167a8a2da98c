#include "data/listops/listops.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "fovea/error.h"
#include "support/expect_error.h"

namespace fovea::listops {
namespace {

constexpr auto kBad = ErrorCode::bad_input;

int value(const char* text) { return evaluate(parse(text)); }

int depth(const Tokens& tokens) {
  int now = 0, most = 0;
  for (const std::uint8_t token : tokens) {
    if (token == kClose)
      --now;
    else if (token < kClose)
      most = std::max(most, ++now);
  }
  return most;
}

std::vector<Example> examples(std::uint64_t seed, std::size_t count, int threads) {
  const Context context({.threads = threads});
  return Generator(seed).next(context, count);
}

TEST(ListOps, EvaluatesThePublishedExamples) {
  EXPECT_EQ(value("[MAX 2 9 [MIN 4 7 ] 0 ]"), 9);
  EXPECT_EQ(value("[MED 1 2 ]"), 1);
  EXPECT_EQ(value("[SM 9 9 ]"), 8);
  EXPECT_EQ(value("[MED 9 1 5 ]"), 5);
  EXPECT_EQ(value("[MED 9 1 5 4 ]"), 4);
  EXPECT_EQ(value("[MIN 3 ]"), 3);
  EXPECT_EQ(value("7"), 7);
  EXPECT_EQ(value("( ( ( [SM 4 ) ( ( ( [MAX 2 ) 9 ) X ) ) X )"), 3);
}

TEST(ListOps, PrintsEveryApplicationInParentheses) {
  EXPECT_EQ(print(parse("[MAX 2 9 ]")), "( ( ( [MAX 2 ) 9 ) ] )");
  EXPECT_EQ(print(parse("[SM [MIN 1 2 ] 3 ]")), "( ( ( [SM ( ( ( [MIN 1 ) 2 ) ] ) ) 3 ) ] )");
  EXPECT_EQ(print(parse("5")), "5");
}

TEST(ListOps, RefusesWhatIsNotOneExpression) {
  EXPECT_ERROR(parse(""), kBad, "empty", "token 1", "");
  EXPECT_ERROR(parse("[MAX 1"), kBad, "ends before its last ]", "token 3", "");
  EXPECT_ERROR(parse("[MAX ]"), kBad, "without arguments", "token 2", "");
  EXPECT_ERROR(parse("]"), kBad, "] without an operator", "token 1", "");
  EXPECT_ERROR(parse("1 2"), kBad, "follows the end", "token 2", "");
  EXPECT_ERROR(parse("[MAX 1 ] ]"), kBad, "follows the end", "token 4", "");
  EXPECT_ERROR(parse("[MAX 1 10 ]"), kBad, "token \"10\" is not in the vocabulary", "token 3", "");
  EXPECT_ERROR(parse("[MAY 1 2 ]"), kBad, "token \"[MAY\"", "token 1", "\"[MAX\"?");
  EXPECT_ERROR(evaluate({0}), kBad, "outside the vocabulary", "token 1", "");
  EXPECT_ERROR(evaluate({kVocabulary}), kBad, "outside the vocabulary", "token 1", "");
  std::string deep;
  for (int i = 0; i < 200000; ++i) deep += "[MIN ";
  EXPECT_ERROR(parse(deep), kBad, "ends before its last ]", "token 200001", "");
}

TEST(ListOps, GeneratedTreesFollowTheSpecification) {
  const std::vector<Example> set = examples(1, 300, 2);
  std::set<std::string> distinct;
  int deepest = 0;
  for (const Example& example : set) {
    EXPECT_GT(example.tokens.size(), 500u);
    EXPECT_LT(example.tokens.size(), 2000u);
    deepest = std::max(deepest, depth(example.tokens));
    EXPECT_EQ(example.label, evaluate(example.tokens));
    EXPECT_EQ(parse(print(example.tokens)), example.tokens);
    distinct.insert(print(example.tokens));
  }
  EXPECT_EQ(distinct.size(), set.size());
  EXPECT_LE(deepest, 9);
  EXPECT_GE(deepest, 7);
}

// Operators and digits are uniform, arguments uniform in 2..10. Digits number some 10^5, so 3% is over 5 deviations.
TEST(ListOps, DrawsAreUniform) {
  std::map<int, double> tokens;
  double digits = 0, operators = 0;
  for (const Example& example : examples(3, 300, 2))
    for (const std::uint8_t token : example.tokens) {
      ++tokens[token];
      (token >= kDigit0 ? digits : operators) += token == kClose ? 0 : 1;
    }
  for (int d = 0; d < 10; ++d) EXPECT_NEAR(tokens[kDigit0 + d] / digits, 0.1, 0.003);
  for (int op = kMin; op <= kSum; ++op) EXPECT_NEAR(tokens[op] / operators, 0.25, 0.01);
  EXPECT_EQ(tokens[kClose], operators);
}

TEST(ListOps, SmallTreesAreDistinctToo) {
  const Context context({.threads = 2});
  Generator generator(1, {.max_depth = 2, .max_arguments = 2, .min_length = 4, .max_length = 4});
  std::set<std::string> distinct;
  for (const Example& example : generator.next(context, 400))
    distinct.insert(print(example.tokens));  // all there are: 4 x 100
  EXPECT_EQ(distinct.size(), 400u);
}

TEST(ListOps, SameSetForAnyThreadsAndAnyPortions) {
  const std::vector<Example> whole = examples(7, 200, 1);
  EXPECT_EQ(whole, examples(7, 200, 2));
  EXPECT_EQ(whole, examples(7, 200, 5));
  EXPECT_NE(whole, examples(8, 200, 1));
  const Context context({.threads = 2});
  Generator generator(7);
  std::vector<Example> parts;
  for (const std::size_t count : {1, 0, 120, 79})
    for (Example& example : generator.next(context, count)) parts.push_back(std::move(example));
  EXPECT_EQ(whole, parts);
}

TEST(ListOps, AShortTrainingSetIsThePrefixOfALongOne) {
  const Context context({.threads = 2});
  const LabelledData small = generate(context, 5, {.train = 20, .validation = 10, .test = 30});
  const LabelledData large = generate(context, 5, {.train = 50, .validation = 20, .test = 30});
  EXPECT_TRUE(std::equal(small.train.begin(), small.train.end(), large.train.begin()));
  EXPECT_TRUE(std::equal(small.validation.begin(), small.validation.end(), large.validation.begin()));
  EXPECT_EQ(small.test, large.test);
  EXPECT_EQ(small.train.size(), 20u);
  EXPECT_EQ(small.classes, 10);
  EXPECT_ERROR(generate(context, 5, {.train = 1, .validation = 2001, .test = 1}), ErrorCode::usage, "at most 2000", "",
               "");
}

TEST(ListOps, RefusesShapesWithoutTrees) {
  EXPECT_ERROR(Generator(1, {.max_arguments = 1}), ErrorCode::usage, "no tree", "listops", "");
}

TEST(LabelledData, MajorityShare) {
  EXPECT_EQ(majority_share({}), 0.0);
  EXPECT_EQ(majority_share({{{1}, 0}, {{1}, 2}, {{1}, 2}, {{1}, 1}}), 0.5);
}

}  // namespace
}  // namespace fovea::listops
