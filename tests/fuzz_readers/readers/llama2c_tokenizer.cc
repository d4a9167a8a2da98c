#include "fovea/tokenizer.h"
#include "fuzz_readers/harness.h"

namespace fovea::fuzz {
namespace {

void try_llama2c_tokenizer(const Input& input) {
  const Path file = input.put("tokenizer.bin");
  const Tokenizer tokenizer = Tokenizer::load(file.string());
  tokenizer.decode(tokenizer.encode("Once upon a time, 1234 times <s>", true).ids);
}

const Known kLlama2cTokenizer({"llama2c_tokenizer", try_llama2c_tokenizer, kMemoryFloor});

}  // namespace
}  // namespace fovea::fuzz
