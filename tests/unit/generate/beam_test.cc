#include "generate/beam.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "support/drawn_parameters.h"
#include "support/families.h"
#include "unit/generate/reading.h"

namespace fovea {
namespace {

constexpr std::int64_t kWords = 4, kLongest = 4;
constexpr std::int32_t kStop = 2;

// A small model over four tokens, with weights far from uniform.
Model make_model(Context& context, const std::string& preset, std::uint64_t seed) {
  ModelConfig config = families::small(preset, DType::f64);
  config.vocabulary = kWords;
  Model model(context, config);
  Random draws(seed, 2);
  testing::draw(model, draws, 0.6);
  return model;
}

// Log-probabilities of what follows, by the parallel form.
std::vector<double> following(Context& context, const Model& model, const Tokens& tokens, const Tokens& source) {
  Tape tape(context, {.record = false});
  const auto all =
      log_softmax(tape, model.forward(tape, reading_of(context, tokens, source))).value().to_vector<double>();
  return {all.end() - kWords, all.end()};
}

struct Best {
  Tokens ids;
  double score = -INFINITY;
};

// Tries every sequence that ends with the stop token or is as long as allowed.
Best exhaustive(Context& context, const Model& model, const Tokens& prompt, const Tokens& source, double penalty) {
  Best best;
  const std::function<void(Tokens, double)> visit = [&](const Tokens& made, double sum) {
    Tokens read = prompt;
    read.insert(read.end(), made.begin(), made.end());
    const auto logs = following(context, model, read, source);
    for (std::int32_t id = 0; id < kWords; ++id) {
      Tokens next = made;
      next.push_back(id);
      const double total = sum + logs[static_cast<std::size_t>(id)];
      if (id != kStop && std::ssize(next) < kLongest) {
        visit(next, total);
        continue;
      }
      const double score = total / std::pow(static_cast<double>(next.size()), penalty);
      if (score > best.score) best = {next, score};
    }
  };
  visit({}, 0.0);
  return best;
}

TEST(Beams, WideEnoughFindTheBestOfAll) {
  int shorter = 0;
  for (const char* preset : {"gpt", "llama", "seq2seq"})
    for (std::uint64_t seed = 0; seed < 6; ++seed)
      for (const double penalty : {0.0, 1.0, 2.0, -0.5}) {
        Context context({.threads = 2, .memory = {.poison = true}});
        const Model model = make_model(context, preset, seed);
        const bool translates = model.config().task == Task::seq2seq;
        const std::vector<Tokens> prompts = {{3, 1}};
        const Best best = translates ? exhaustive(context, model, {0}, prompts[0], penalty)
                                     : exhaustive(context, model, prompts[0], {}, penalty);
        Generator generator(context, model);
        const auto found = generator.run(prompts, {.max_tokens = kLongest,
                                                   .beams = 64,
                                                   .length_penalty = penalty,
                                                   .beam_stop = BeamStop::certain,
                                                   .stop_ids = {kStop},
                                                   .start = 0});
        EXPECT_EQ(found[0].ids, best.ids) << preset << " " << seed << " " << penalty;
        EXPECT_NEAR(found[0].score, best.score, 1e-5);
        shorter += std::ssize(best.ids) < kLongest ? 1 : 0;
      }
  EXPECT_GT(shorter, 5);  // or the stop token was never tested
}

TEST(Beams, OfWidthOneAreGreedy) {
  Context context({.threads = 2});
  const Model model = make_model(context, "gpt", 1);
  const Decoder decoder(context, model, WeightForm::f32);
  Generator generator(context, model);
  const std::vector<Tokens> prompts = {{3, 1}};
  const auto greedy = generator.run(prompts, {.max_tokens = 7, .stop_ids = {kStop}});
  const BeamTask task{{prompts[0], {}}, 7};
  const GenerateOptions options{.beams = 1, .beam_stop = BeamStop::enough, .stop_ids = {kStop}};
  EXPECT_EQ(beam_search(decoder, {&task, 1}, options, nullptr)[0].ids, greedy[0].ids);
}

// Prompts of different lengths, whose searches end at different steps.
TEST(Beams, AreTheSameSideBySide) {
  const std::vector<Tokens> prompts = {{3, 1}, {0}, {2, 2, 1, 0, 3}, {1, 3}, {1, 0, 3}};
  for (const char* preset : {"gpt", "llama", "seq2seq"}) {
    Context context({.threads = 2, .memory = {.poison = true}});
    const Model model = make_model(context, preset, 5);
    Generator generator(context, model);
    GenerateOptions options{.max_tokens = 9, .beams = 3, .stop_ids = {kStop}, .start = 0, .batch = 1};
    const auto alone = generator.run(prompts, options);
    options.batch = 3;
    const auto together = generator.run(prompts, options);
    for (std::size_t i = 0; i < prompts.size(); ++i) {
      EXPECT_EQ(together[i].ids, alone[i].ids) << preset << " " << i;
      EXPECT_EQ(together[i].score, alone[i].score) << preset << " " << i;
      EXPECT_EQ(together[i].end, alone[i].end) << preset << " " << i;
    }
  }
}

// The same with products by packed weights, which have a type of their own.
TEST(Beams, AreTheSameSideBySideWithPackedWeights) {
  const std::vector<Tokens> prompts = {{3, 1}, {0}, {2, 2, 1, 0, 3}, {1, 3}, {1, 0, 3}};
  Context context({.threads = 2, .memory = {.poison = true}});
  ModelConfig config = families::small("gpt", DType::f32);
  const Model model(context, config);
  for (const WeightForm form : {WeightForm::f32, WeightForm::i8}) {
    Generator generator(context, model, form);
    GenerateOptions options{.max_tokens = 3, .beams = 4, .batch = 1};
    const auto alone = generator.run(prompts, options);
    options.batch = 4;
    const auto together = generator.run(prompts, options);
    for (std::size_t i = 0; i < prompts.size(); ++i) {
      EXPECT_EQ(together[i].ids, alone[i].ids) << i;
      EXPECT_EQ(together[i].score, alone[i].score) << i;
    }
  }
}

TEST(Beams, DoNotWorsenWithWidthHere) {
  Context context({.threads = 2});
  const Model model = make_model(context, "gpt", 3);
  Generator generator(context, model);
  const std::vector<Tokens> prompts = {{3, 1}, {0}};
  double last = -INFINITY;
  for (const std::int64_t beams : {2, 4, 16, 64}) {
    const auto found = generator.run(prompts, {.max_tokens = 6, .beams = beams});
    EXPECT_GE(found[0].score, last - 1e-6) << beams;
    last = found[0].score;
    EXPECT_EQ(found[1].ids.size(), 6u);
  }
}

// The longer a search goes on the better what it finds, and each way of ending does end some of them earlier.
TEST(Beams, EndWhenToldTo) {
  int shorter[] = {0, 0};
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    Context context({.threads = 2});
    const Model model = make_model(context, "llama", seed);
    Generator generator(context, model);
    const std::vector<Tokens> prompts = {{3}};
    std::vector<Generated> found;
    for (const BeamStop stop : {BeamStop::enough, BeamStop::likely, BeamStop::certain})
      found.push_back(generator.run(
          prompts, {.max_tokens = 30, .beams = 2, .length_penalty = 3.0, .beam_stop = stop, .stop_ids = {kStop}})[0]);
    for (std::size_t i = 0; i < 2; ++i) {
      EXPECT_GE(found[i + 1].score, found[i].score) << seed;
      shorter[i] += found[i].ids.size() < found[i + 1].ids.size() ? 1 : 0;
    }
  }
  EXPECT_GT(shorter[0], 0);
  EXPECT_GT(shorter[1], 0);
}

// A copy of a past shares its memory until one of the two is moved on, and then neither notices the other.
TEST(Beams, ForksOfAPastDoNotMeet) {
  Context context({.threads = 2});
  for (const char* preset : {"gpt", "transnormer-t2-lm"}) {
    const Model model = make_model(context, preset, 5);
    const Decoder decoder(context, model, WeightForm::f32);
    const Tokens start = {1, 3, 0}, left = {2, 2}, right = {3, 1};
    nn::Past a = decoder.new_past();
    const auto step = [&](nn::Past& past, const Tokens& tokens) {
      const Reading reading{&past, tokens};
      return decoder.step({&reading, 1}).to_vector<float>();
    };
    step(a, start);
    nn::Past b = a;
    EXPECT_EQ(a.layers[0].self.keys.raw(), b.layers[0].self.keys.raw());
    step(a, left);
    const auto got = step(b, right);
    nn::Past alone = decoder.new_past();
    step(alone, start);
    EXPECT_EQ(got, step(alone, right));
  }
}

}  // namespace
}  // namespace fovea
