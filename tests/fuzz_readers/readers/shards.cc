#include "text/shards.h"

#include "fuzz_readers/harness.h"

namespace fovea::fuzz {
namespace {

void try_shards(const Input& input) {
  const auto parts = input.parts(3);
  input.put("index.json", parts[0]);
  input.put("tokens-00000.bin", parts[1]);
  input.put("tokens-00001.bin", parts[2]);
  const TokenStream stream(input.folder());
  constexpr std::int64_t kWindow = 100;
  std::vector<std::int32_t> ids(kWindow);
  for (std::int64_t at = 0; at < stream.size(); at += kWindow)
    stream.read(at, std::span(ids).first(static_cast<std::size_t>(std::min(kWindow, stream.size() - at))));
}

const Known kShards({"shards", try_shards});

}  // namespace
}  // namespace fovea::fuzz
