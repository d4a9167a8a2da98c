#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "fovea/inspect.h"
#include "support/tensors.h"

// Classes that need to know the tokens, on maps that are made up; each also with a fifth of its mass everywhere.
namespace fovea {
namespace {

using Reads = std::function<double(std::int64_t row, std::int64_t key)>;  // weights, up to a factor for each row

constexpr std::int64_t kTokens = 96;

std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }

// Sentences of eight tokens: "the cat the sees mouse -s today .", whose sixth is a part of the fifth word. The verb is
// what all depend on, the nouns are now before, now behind it.
struct Text {
  TokenNotes notes;

  Text() {
    for (std::int64_t i = 0; i < kTokens; ++i) {
      const std::int64_t place = i % 8;
      notes.delimiter.push_back(place == 7 ? 1 : 0);
      if (place == 7 || place == 5) {
        notes.word.push_back(place == 5 ? notes.word.back() : -1);
        continue;
      }
      notes.word.push_back(static_cast<std::int32_t>(notes.words.size()));
      notes.words.push_back({.tag = place == 3 ? "VERB" : "NOUN", .relation = {}});
    }
    for (std::size_t sentence = 0; sentence < at(kTokens / 8); ++sentence)
      for (std::size_t w = 0; w < 6; ++w) {
        const bool is_there = sentence * 6 + w < notes.words.size();
        if (w == 3 || !is_there) continue;
        TaggedWord& word = notes.words[sentence * 6 + w];
        word.relation = w % 2 == sentence % 2 ? "nsubj" : "obj:x";
        word.head = static_cast<std::int64_t>(sentence * 6 + 3);
      }
  }
  std::int64_t word(std::int64_t token) const { return notes.word[at(token)]; }
  const std::string& tag(std::int64_t token) const { return notes.words[at(word(token))].tag; }
  bool is_word(std::int64_t token) const { return word(token) >= 0; }
};

HeadVerdict told(const Text& text, const Reads& reads, double noise, bool causal = false) {
  Context context = testing::poisoned();
  constexpr std::int64_t n = kTokens;
  std::vector<float> q(at(n * n)), k(at(n * n), 0.0f);
  for (std::int64_t i = 0; i < n; ++i) {
    double sum = 0.0;
    for (std::int64_t j = 0; j < n; ++j) sum += reads(i, j);
    for (std::int64_t j = 0; j < n; ++j) {
      const double own = sum > 0.0 ? reads(i, j) / sum : 1.0 / n;
      const double p = std::max((1.0 - noise) * own + noise / n, 1e-9);
      q[at(i * n + j)] = static_cast<float>(std::log(p) * std::sqrt(static_cast<double>(n)));
    }
    k[at(i * n + i)] = 1.0f;
  }
  const Tensor queries = Tensor::from<float>(context, {1, n, 1, n}, q),
               keys = Tensor::from<float>(context, {1, n, 1, n}, k);
  const LayerRecord record =
      inspect_attention(context, queries, keys, testing::random(context, {1, n, 1, 4}, 5, DType::f32),
                        Mechanism("softmax"), {.causal = causal}, {.notes = text.notes});
  return record.heads[0].verdict;
}

class TokenClasses : public ::testing::TestWithParam<double> {
 protected:
  HeadVerdict judge(const Reads& reads, bool causal = false) { return told(text_, reads, GetParam(), causal); }
  Text text_;
};

TEST_P(TokenClasses, ADelimiterHeadReadsThemAll) {
  const HeadVerdict verdict = judge([&](auto, auto j) { return text_.notes.delimiter[at(j)] != 0 ? 1.0 : 0.0; });
  EXPECT_EQ(verdict.head_class, HeadClass::delimiter);
  EXPECT_NEAR(verdict.delimiters.share, 1.0 - GetParam() * 7.0 / 8.0, 1e-3);
  EXPECT_NEAR(verdict.delimiters.baseline, 1.0 / 8.0, 1e-6);
}

TEST_P(TokenClasses, ABroadcastKeyThatIsAWordIsNoDelimiter) {
  EXPECT_EQ(judge([](auto, auto j) { return j == 9 ? 1.0 : 0.0; }).head_class, HeadClass::broadcast);
  EXPECT_EQ(judge([](auto, auto j) { return j == 15 ? 1.0 : 0.0; }).head_class, HeadClass::delimiter);
}

TEST_P(TokenClasses, ASyntacticHeadFollowsARelation) {
  const auto follows = [&](std::int64_t i, std::int64_t j) {
    if (!text_.is_word(i) || !text_.is_word(j)) return 0.0;
    return text_.notes.words[at(text_.word(i))].head == text_.word(j) ? 1.0 : 0.0;
  };
  const HeadVerdict verdict = judge(follows);
  EXPECT_EQ(verdict.head_class, HeadClass::syntactic);
  EXPECT_EQ(verdict.relation.of, "nsubj");
  EXPECT_EQ(verdict.relation.share, 1.0);
  EXPECT_LT(verdict.relation.baseline, 0.5);
}

// The other way a word may have several: one of them is enough. Subtypes are one relation.
TEST_P(TokenClasses, ASyntacticHeadMayGoBack) {
  const HeadVerdict verdict = judge([&](std::int64_t i, std::int64_t j) {
    if (!text_.is_word(i) || !text_.is_word(j)) return 0.0;
    const TaggedWord& reads = text_.notes.words[at(text_.word(j))];
    return reads.head == text_.word(i) && reads.relation == "obj:x" ? 1.0 : 0.0;
  });
  EXPECT_EQ(verdict.head_class, HeadClass::syntactic);
  EXPECT_EQ(verdict.relation.of, "obj back");
  EXPECT_EQ(verdict.relation.share, 1.0);
  EXPECT_EQ(verdict.relation.baseline, 0.5);
}

TEST_P(TokenClasses, ASemanticHeadReadsAKindOfWord) {
  const HeadVerdict verbs =
      judge([&](auto i, auto j) { return text_.is_word(j) && text_.tag(j) == "VERB" && i / 8 != j / 8 ? 1.0 : 0.0; });
  EXPECT_EQ(verbs.head_class, HeadClass::semantic);
  EXPECT_EQ(verbs.tag.of, "VERB");
  EXPECT_GT(verbs.tag.gain(), 0.5);
}

TEST_P(TokenClasses, AHeadWithoutAPatternHasNone) {
  const HeadVerdict verdict =
      judge([](auto i, auto j) { return 1.0 + 0.2 * static_cast<double>((i * 31 + j * 17) % 5); });
  EXPECT_EQ(verdict.head_class, HeadClass::diffuse);
  EXPECT_NEAR(verdict.delimiters.share, verdict.delimiters.baseline, 0.05);
}

// The same share of each row's own past, whatever its length.
TEST_P(TokenClasses, BaselinesOfCausalHeadsCountWhatMayBeRead) {
  const HeadVerdict verdict = judge([](auto, auto) { return 1.0; }, true);
  EXPECT_NEAR(verdict.delimiters.share, verdict.delimiters.baseline, 1e-4);
  double expected = 0.0;
  for (std::int64_t i = 0; i < kTokens; ++i)
    expected += static_cast<double>((i + 1) / 8) / static_cast<double>(i + 1) / static_cast<double>(kTokens);
  EXPECT_NEAR(verdict.delimiters.baseline, expected, 1e-6);
}

INSTANTIATE_TEST_SUITE_P(WithNoise, TokenClasses, ::testing::Values(0.0, 0.2),
                         [](const auto& info) { return info.param > 0.0 ? "Noisy" : "Clean"; });

TEST(TokenNotes, OfOtherLengthsAreLeftAlone) {
  Context context = testing::poisoned();
  const Tensor x = testing::random(context, {1, 12, 2, 4}, 1, DType::f32);
  InspectOptions options;
  options.notes.delimiter = {1, 0, 1};
  EXPECT_TRUE(std::isnan(
      inspect_attention(context, x, x, x, Mechanism("softmax"), {}, options).heads[0].verdict.delimiters.share));
  options.notes.delimiter.assign(11, 0);  // a model puts a token in front
  EXPECT_EQ(inspect_attention(context, x, x, x, Mechanism("softmax"), {}, options).heads[0].verdict.delimiters.baseline,
            1.0 / 12);
  options.notes.word.assign(12, 3);
  EXPECT_THROW(inspect_attention(context, x, x, x, Mechanism("softmax"), {}, options), Error);
}

}  // namespace
}  // namespace fovea
