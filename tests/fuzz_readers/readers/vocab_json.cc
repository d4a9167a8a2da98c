#include "fovea/tokenizer.h"
#include "fuzz_readers/harness.h"

namespace fovea::fuzz {
namespace {

void try_vocab_json(const Input& input) {
  const auto parts = input.parts(2);
  const Path file = input.put("vocab.json", parts[0]);
  input.put("merges.txt", parts[1]);
  const Tokenizer tokenizer = Tokenizer::load(file.string());
  tokenizer.decode(tokenizer.encode("Once upon a time, 1234 times <s>", true).ids);
}

const Known kVocabJson({"vocab_json", try_vocab_json, kMemoryFloor});

}  // namespace
}  // namespace fovea::fuzz
