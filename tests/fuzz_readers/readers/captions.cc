#include "data/kinds.h"
#include "fuzz_readers/harness.h"

namespace fovea::fuzz {
namespace {

void try_captions(const Input& input) {
  const auto parts = input.parts(2);
  input.put("train.captions", parts[0]);
  input.put("p.png", parts[1]);
  DataSettings settings;
  settings.kind = "captions";
  settings.source = input.folder().string();
  settings.size = 4;
  settings.vocabulary = 260;
  load_data(fresh_context(), settings);
}

const Known kCaptions({"captions", try_captions, 4 * kMemoryFloor, 4 * kMemoryFactor});

}  // namespace
}  // namespace fovea::fuzz
