#include "fovea/tokenizer.h"
#include "fuzz_readers/harness.h"

namespace fovea::fuzz {
namespace {

void try_vocab_txt(const Input& input) {
  const Path file = input.put("vocab.txt");
  const Tokenizer tokenizer = Tokenizer::load(file.string());
  tokenizer.decode(tokenizer.encode("Once upon a time, 1234 times <s>", true).ids);
}

const Known kVocabTxt({"vocab_txt", try_vocab_txt, kMemoryFloor});

}  // namespace
}  // namespace fovea::fuzz
