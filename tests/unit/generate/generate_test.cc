#include "fovea/generate.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "support/drawn_parameters.h"
#include "support/expect_error.h"
#include "support/families.h"
#include "support/names.h"
#include "unit/generate/reading.h"

namespace fovea {
namespace {

using families::kVocabulary;

Context make_context(int threads = 2) { return Context({.threads = threads, .seed = 5, .memory = {.poison = true}}); }

// Far from uniform, so that the most likely token is not a matter of rounding.
Model stirred(Context& context, const std::string& preset, const std::string& attention = "", int length = 64) {
  ModelConfig config = families::small(preset, DType::f32);
  if (!attention.empty()) config.set_attention(attention);
  config.max_length = length;
  Model model(context, config);
  Random draws(8, 8);
  testing::draw(model, draws, 0.5);
  return model;
}

// Logits after each token of `tokens`, by the parallel form.
std::vector<float> last_logits(Context& context, const Model& model, const Tokens& tokens, const Tokens& source) {
  Tape tape(context, {.record = false});
  const auto all = model.forward(tape, reading_of(context, tokens, source)).value().to_vector<float>();
  return {all.end() - kVocabulary, all.end()};
}

std::int32_t argmax(const std::vector<float>& values) {
  return static_cast<std::int32_t>(std::max_element(values.begin(), values.end()) - values.begin());
}

Tokens greedy_by_hand(Context& context, const Model& model, Tokens tokens, int count, const Tokens& source = {}) {
  const std::size_t given = tokens.size();
  for (int i = 0; i < count; ++i) tokens.push_back(argmax(last_logits(context, model, tokens, source)));
  return {tokens.begin() + static_cast<std::ptrdiff_t>(given), tokens.end()};
}

const std::vector<Tokens> kPrompts = {{3, 1, 4}, {1}, {5, 9, 2, 6, 5, 3, 5}};

struct Case {
  std::string preset, attention;
};
void PrintTo(const Case& c, std::ostream* out) { *out << c.preset << ' ' << c.attention; }

class Greedy : public ::testing::TestWithParam<Case> {};
INSTANTIATE_TEST_SUITE_P(Models, Greedy,
                         ::testing::Values(Case{"gpt", ""}, Case{"llama", ""}, Case{"gpt", "norm"},
                                           Case{"gpt", "retnet"}, Case{"transnormer-t2-lm", ""},
                                           Case{"gpt", "window:left=4"}),
                         [](const auto& info) {
                           const std::string attention = info.param.attention.substr(0, info.param.attention.find(':'));
                           return test_name(info.param.preset + (attention.empty() ? "" : "-" + attention));
                         });

TEST_P(Greedy, IsTheMostLikelyTokenOfTheParallelForm) {
  Context context = make_context();
  const Model model = stirred(context, GetParam().preset, GetParam().attention);
  Generator generator(context, model);
  const auto results = generator.run(kPrompts, {.max_tokens = 20});
  ASSERT_EQ(results.size(), kPrompts.size());
  for (std::size_t i = 0; i < kPrompts.size(); ++i) {
    EXPECT_EQ(results[i].ids, greedy_by_hand(context, model, kPrompts[i], 20)) << i;
    EXPECT_EQ(results[i].end, GenerateEnd::max_tokens);
  }
}

TEST(Generate, TranslatesToTheMostLikelyTokens) {
  for (const char* preset : {"seq2seq", "t5"}) {
    Context context = make_context();
    const Model model = stirred(context, preset);
    Generator generator(context, model);
    const auto results = generator.run(kPrompts, {.max_tokens = 12, .start = 7, .batch = 2});
    for (std::size_t i = 0; i < kPrompts.size(); ++i)
      EXPECT_EQ(results[i].ids, greedy_by_hand(context, model, {7}, 12, kPrompts[i])) << preset << i;
  }
}

TEST(Generate, ASequenceDoesNotDependOnItsBatch) {
  Context context = make_context();
  const Model model = stirred(context, "gpt");
  const GenerateOptions options{.max_tokens = 30, .temperature = 1.3, .seed = 4};
  Generator generator(context, model);
  GenerateOptions alone = options;
  alone.batch = 1;
  const auto together = generator.run(kPrompts, options), single = generator.run(kPrompts, alone);
  for (std::size_t i = 0; i < kPrompts.size(); ++i) EXPECT_EQ(together[i].ids, single[i].ids) << i;

  GenerateOptions other = options;
  other.seed = 5;
  EXPECT_NE(generator.run(kPrompts, other)[0].ids, together[0].ids);
  Context one = make_context(1);
  Generator elsewhere(one, model);
  EXPECT_EQ(elsewhere.run(kPrompts, options)[2].ids, together[2].ids);
}

// More prompts than run together, of lengths below and above what packed weights read; they end at different steps, and
// others take their places.
TEST(Generate, TextsAreTheSameInAnyCompany) {
  std::vector<Tokens> prompts;
  for (int i = 0; i < 40; ++i) {
    Tokens& prompt = prompts.emplace_back();
    for (int t = 0; t < (i % 9 == 4 ? 70 : 1 + i % 6); ++t) prompt.push_back((i + 3 * t) % kVocabulary);
  }
  const GenerateOptions options{.max_tokens = 14, .temperature = 1.2, .seed = 4, .stop_ids = {2}, .start = 7};
  for (const Case& c : {Case{"gpt", ""}, {"llama", ""}, {"gpt", "norm"}, {"gpt", "window:left=4"}, {"seq2seq", ""}})
    for (const WeightForm form : {WeightForm::f32, WeightForm::bf16, WeightForm::i8}) {
      Context context = make_context();
      const Model model = stirred(context, c.preset, c.attention, 96);
      Generator generator(context, model, form);
      GenerateOptions alone = options, few = options;
      alone.batch = 1;
      few.batch = 3;
      const auto all = generator.run(prompts, options), single = generator.run(prompts, alone),
                 some = generator.run(prompts, few);
      std::size_t ended = 0;
      for (std::size_t i = 0; i < prompts.size(); ++i) {
        EXPECT_EQ(all[i].ids, single[i].ids) << c.preset << c.attention << i;
        EXPECT_EQ(some[i].ids, single[i].ids) << c.preset << c.attention << i;
        EXPECT_EQ(all[i].end, single[i].end);
        ended += all[i].end == GenerateEnd::stop_id ? 1 : 0;
      }
      EXPECT_GT(ended, 3u);
      EXPECT_LT(ended, prompts.size());
    }
}

TEST(Generate, EqualPromptsAreDrawnApart) {
  Context context = make_context();
  const Model model = stirred(context, "gpt");
  Generator generator(context, model);
  const std::vector<Tokens> same(2, Tokens{1, 2});
  const auto results = generator.run(same, {.max_tokens = 20, .temperature = 1.0});
  EXPECT_NE(results[0].ids, results[1].ids);
}

TEST(Generate, StopsAtTokensAndWhenToldTo) {
  Context context = make_context();
  const Model model = stirred(context, "gpt");
  Generator generator(context, model);
  const Tokens free = generator.run(kPrompts, {.max_tokens = 20})[0].ids;
  const std::int32_t last = free[7];
  const auto first = static_cast<std::size_t>(std::find(free.begin(), free.end(), last) - free.begin());
  const auto stopped = generator.run({&kPrompts[0], 1}, {.max_tokens = 20, .stop_ids = {last}});
  EXPECT_EQ(stopped[0].ids, Tokens(free.begin(), free.begin() + static_cast<std::ptrdiff_t>(first) + 1));
  EXPECT_EQ(stopped[0].end, GenerateEnd::stop_id);

  std::vector<Tokens> heard(kPrompts.size());
  const auto watched = generator.run(kPrompts, {.max_tokens = 20}, {[&](std::int64_t prompt, std::int32_t id) {
                                       Tokens& own = heard[static_cast<std::size_t>(prompt)];
                                       own.push_back(id);
                                       return prompt != 1 || own.size() < 5;
                                     }});
  for (std::size_t i = 0; i < kPrompts.size(); ++i) EXPECT_EQ(heard[i], watched[i].ids);
  EXPECT_EQ(watched[1].ids.size(), 5u);
  EXPECT_EQ(watched[1].end, GenerateEnd::stop_text);
  EXPECT_EQ(watched[2].ids.size(), 20u);

  std::atomic<bool> stop{false};
  const auto cut = generator.run(kPrompts, {.max_tokens = 20, .batch = 2}, {[&](std::int64_t, std::int32_t) {
                                   stop = true;
                                   return true;
                                 }},
                                 &stop);
  EXPECT_EQ(cut[0].ids.size(), 1u);
  EXPECT_EQ(cut[2].ids.size(), 0u);
  EXPECT_EQ(cut[2].end, GenerateEnd::interrupted);
}

TEST(Generate, EndsWithThePositionsOfTheModel) {
  Context context = make_context();
  const Model model = stirred(context, "gpt", "", families::kLength);
  Generator generator(context, model);
  const auto results = generator.run(kPrompts, {.max_tokens = 20});
  for (std::size_t i = 0; i < kPrompts.size(); ++i) {
    EXPECT_EQ(results[i].ids.size(), families::kLength + 1 - kPrompts[i].size());
    EXPECT_EQ(results[i].end, GenerateEnd::context);
  }
  const std::vector<Tokens> longer = {{1}, Tokens(families::kLength + 1, 2)};
  EXPECT_ERROR(generator.run(longer, {}), ErrorCode::bad_input, "a prompt of 10 tokens, but the model takes 9",
               "prompts[1]", "shorter");
}

TEST(Generate, RefusesWhatItCannotDo) {
  Context context = make_context();
  const Model gpt = stirred(context, "gpt"), vit(context, families::family("vit")), t5 = stirred(context, "t5");
  EXPECT_ERROR(Generator(context, vit), ErrorCode::unsupported, "does not generate", "model.task", "lm or seq2seq");
  Generator generator(context, gpt), translator(context, t5);
  const std::vector<Tokens> empty = {{}}, wrong = {{1, kVocabulary}};
  EXPECT_ERROR(generator.run(empty, {}), ErrorCode::usage, "without tokens", "prompts[0]", "at least one");
  EXPECT_ERROR(generator.run(wrong, {}), ErrorCode::bad_input, "token 11 is outside the vocabulary 0 .. 10",
               "prompts[0]", "tokeniser");
  EXPECT_ERROR(generator.run(kPrompts, {.stop_ids = {99}}), ErrorCode::bad_input, "token 99", "stop_ids", "");
  EXPECT_ERROR(translator.run(kPrompts, {}), ErrorCode::usage, "no token for the decoder", "start", "");
  EXPECT_ERROR(generator.run(kPrompts, {.max_tokens = 0}), ErrorCode::usage, "0", "max_tokens", "");
  EXPECT_ERROR(generator.run(kPrompts, {.temperature = -1}), ErrorCode::usage, "-1", "temperature", "");
  EXPECT_ERROR(generator.run(kPrompts, {.temperature = std::nan("")}), ErrorCode::usage, "", "temperature", "");
  EXPECT_ERROR(generator.run(kPrompts, {.top_k = 3}), ErrorCode::usage, "temperature 0", "top_k", "0.8");
  EXPECT_ERROR(generator.run(kPrompts, {.temperature = 1, .beams = 2}), ErrorCode::usage, "beam search", "temperature",
               "one beam");
  EXPECT_ERROR(generator.run(kPrompts, {.stop = {""}}), ErrorCode::usage, "empty text", "stop", "");
  EXPECT_TRUE(generator.run({}, {}).empty());

  for (const Parameter& p : gpt.parameters()) p.var.value().fill(std::nan(""));
  EXPECT_ERROR(generator.run(kPrompts, {}), ErrorCode::diverged, "not a number", "logits", "");
}

}  // namespace
}  // namespace fovea
