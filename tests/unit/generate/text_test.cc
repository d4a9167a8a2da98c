#include <gtest/gtest.h>

#include "fovea/generate.h"
#include "support/drawn_parameters.h"
#include "support/expect_error.h"
#include "support/families.h"

namespace fovea {
namespace {

Tokens bytes_of(std::string_view text) {
  Tokens ids;
  for (const char c : text) ids.push_back(static_cast<unsigned char>(c));
  return ids;
}

// What a stream says of a text, byte by byte, pieces apart by '|'.
std::string said(std::string_view text, std::vector<std::string> stop, bool* stopped = nullptr) {
  TextStream stream(Tokenizer::bytes(), {}, std::move(stop));
  std::string all;
  for (const std::int32_t id : bytes_of(text))
    if (const std::string piece = stream.next(id); !piece.empty()) all += piece + "|";
  all += stream.finish();
  if (stopped != nullptr) *stopped = stream.stopped();
  return all;
}

TEST(TextStream, SaysEveryTokenAtOnce) { EXPECT_EQ(said("abc", {}), "a|b|c|"); }

TEST(TextStream, NeverCutsACharacter) { EXPECT_EQ(said("aé€𝄞z", {}), "a|é|€|𝄞|z|"); }

TEST(TextStream, StopsAcrossTokens) {
  bool stopped = false;
  EXPECT_EQ(said("one\n\ntwo", {"\n\n"}, &stopped), "o|n|e|");
  EXPECT_TRUE(stopped);
  EXPECT_EQ(said("one\ntwo", {"\n\n"}, &stopped), "o|n|e|\nt|w|o|");
  EXPECT_FALSE(stopped);
  EXPECT_EQ(said("one\n", {"\n\n"}, &stopped), "o|n|e|\n");
  EXPECT_FALSE(stopped);
}

TEST(TextStream, HoldsBackNoMoreThanItMust) {
  EXPECT_EQ(said("aabaabc", {"aabc"}), "aab|");
  EXPECT_EQ(said("aaaabX", {"aab"}), "a|a|");
  EXPECT_EQ(said("xEND y", {"STOP", "END"}), "x|");
  EXPECT_EQ(said("xENS y", {"STOP", "END"}), "x|EN|S |y|");
}

// The first of two texts in the text ends it, also when the other one would come first in the list.
TEST(TextStream, StopsAtTheFirst) {
  TextStream stream(Tokenizer::bytes(), {}, {"later", "now"});
  std::string all;
  for (const std::int32_t id : bytes_of("a now later")) all += stream.next(id);
  EXPECT_EQ(all, "a ");
}

Model byte_model(Context& context, const std::string& preset) {
  ModelConfig config = families::small(preset, DType::f32);
  config.vocabulary = 256;
  config.max_length = 64;
  Model model(context, config);
  Random draws(4, 4);
  testing::draw(model, draws, 0.7);
  return model;
}

TEST(GenerateText, StreamsWhatItReturns) {
  Context context({.threads = 2, .memory = {.poison = true}});
  const Model model = byte_model(context, "gpt");
  const Tokenizer tokenizer = Tokenizer::bytes();
  Generator generator(context, model);
  const std::vector<std::string> prompts = {"Once", "up\xc3\xa9", "a"};
  std::vector<std::string> heard(prompts.size());
  std::vector<std::int64_t> done;
  const auto results = generate_text(
      generator, tokenizer, prompts, {.max_tokens = 40, .temperature = 1.5, .seed = 2, .batch = 2},
      {[&](std::int64_t prompt, std::string_view piece) { heard[static_cast<std::size_t>(prompt)] += piece; },
       [&](std::int64_t prompt, const Generated&) { done.push_back(prompt); }});
  EXPECT_EQ(done, (std::vector<std::int64_t>{0, 1, 2}));
  for (std::size_t i = 0; i < prompts.size(); ++i) {
    EXPECT_EQ(results[i].text, heard[i]);
    Tokens all = tokenizer.encode(prompts[i]).ids;
    const std::size_t before = tokenizer.decode(all).size();
    all.insert(all.end(), results[i].ids.begin(), results[i].ids.end());
    EXPECT_EQ(results[i].text, tokenizer.decode(all).substr(before)) << i;
  }
}

TEST(GenerateText, StopsAtATextThatTheModelSays) {
  Context context({.threads = 2});
  const Model model = byte_model(context, "gpt");
  Generator generator(context, model);
  const std::vector<std::string> prompts = {"Once"};
  const GenerateOptions free{.max_tokens = 30, .temperature = 1.0, .seed = 9};
  const std::string whole = generate_text(generator, Tokenizer::bytes(), prompts, free)[0].text;
  const std::string stop = whole.substr(whole.size() / 2, 2);
  for (const std::int64_t beams : {1, 2}) {
    GenerateOptions options = free;
    if (beams > 1) options = {.max_tokens = 30, .beams = beams};
    const auto plain = generate_text(generator, Tokenizer::bytes(), prompts, options)[0];
    const std::string at = beams > 1 ? plain.text.substr(plain.text.size() / 2, 2) : stop;
    options.stop = {at};
    const auto stopped = generate_text(generator, Tokenizer::bytes(), prompts, options)[0];
    EXPECT_EQ(stopped.text, plain.text.substr(0, plain.text.find(at)));
    EXPECT_EQ(stopped.end, GenerateEnd::stop_text);
    EXPECT_LT(stopped.ids.size(), plain.ids.size());
  }
}

TEST(GenerateText, RefusesATokeniserOfAnotherModel) {
  Context context({.threads = 2});
  const Model small(context, families::small("gpt", DType::f32));
  Generator generator(context, small);
  const std::vector<std::string> prompts = {"a"}, none = {""};
  EXPECT_ERROR(generate_text(generator, Tokenizer::bytes(), prompts, {}), ErrorCode::bad_input,
               "256 tokens, the model 11", "tokenizer", "trained with");
  const Model model = byte_model(context, "gpt");
  Generator other(context, model);
  EXPECT_ERROR(generate_text(other, Tokenizer::bytes(), none, {}), ErrorCode::usage, "without tokens", "prompts[0]",
               "");
}

TEST(GenerateText, WeightsInFewerBytesSayAlmostTheSame) {
  Context context({.threads = 2});
  const Model model = byte_model(context, "llama");
  const Tokens prompt = {1, 2, 3};
  const auto logits = [&](WeightForm form) {
    Generator generator(context, model, form);
    return generator.run({&prompt, 1}, {.max_tokens = 1, .beams = 4})[0].score;
  };
  const double exact = logits(WeightForm::f32);
  EXPECT_NEAR(logits(WeightForm::bf16), exact, 0.05);
  EXPECT_NEAR(logits(WeightForm::i8), exact, 0.05);
}

}  // namespace
}  // namespace fovea
