#include "fovea/tokenizer.h"

#include "fuzz_readers/harness.h"

namespace fovea::fuzz {
namespace {

// tokenizer.json, tokenizer_config.json, and a text.
void try_tokenizer_json(const Input& input) {
  const auto parts = input.parts(3);
  input.put("tokenizer.json", parts[0]);
  input.put_or_remove("tokenizer_config.json", parts[1]);
  const Tokenizer tokenizer = Tokenizer::load(input.folder().string());
  constexpr std::size_t kLongest = 256;
  tokenizer.decode(tokenizer.encode(parts[2].substr(0, kLongest), true).ids);
  tokenizer.fingerprint();
}

const Known kTokenizerJson({"tokenizer_json", try_tokenizer_json, kMemoryFloor});

}  // namespace
}  // namespace fovea::fuzz
