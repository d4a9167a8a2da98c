// Decoding in memory that the host cannot touch: logits are read back, and nothing else.

#include <gtest/gtest.h>

#include "fovea/generate.h"
#include "support/drawn_parameters.h"
#include "support/families.h"
#include "support/fenced_memory.h"

namespace fovea::testing {
namespace {

std::vector<Tokens> texts(Context& context, const char* preset, std::int64_t beams) {
  ModelConfig config = families::small(preset, DType::f32);
  config.max_length = 64;
  const Model model(context, config);
  Random draws(8, 8);
  draw(model, draws, 0.5);  // far from uniform, so that the most likely token is not a matter of rounding
  GenerateOptions options;
  options.max_tokens = 6;
  options.beams = beams;
  options.repetition_penalty = 1.2;
  if (config.task == Task::seq2seq) options.start = 7;
  Generator generator(context, model);
  std::vector<Tokens> out;
  for (const Generated& text : generator.run(std::vector<Tokens>{{1, 2, 3}, {4, 5}}, options)) out.push_back(text.ids);
  return out;
}

TEST(GenerateOnDevice, TextsAreThoseOfTheHost) {
  for (const char* preset : {"gpt", "llama", "t5"})
    for (const std::int64_t beams : {1, 3}) {
      Context host({.threads = 2, .seed = 5});
      Context device({.threads = 2, .seed = 5, .pages = std::make_shared<FencedMemory>()});
      EXPECT_EQ(texts(device, preset, beams), texts(host, preset, beams)) << preset << " with " << beams;
    }
}

}  // namespace
}  // namespace fovea::testing
