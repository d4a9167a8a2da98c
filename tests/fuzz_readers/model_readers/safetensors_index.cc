#include "fuzz_readers/harness.h"
#include "pretrained/weights.h"

namespace fovea::fuzz {
namespace {

void try_safetensors_index(const Input& input) {
  const auto parts = input.parts(3);
  input.put("model.safetensors.index.json", parts[0]);
  input.put("a.safetensors", parts[1]);
  input.put("b.safetensors", parts[2]);
  const pretrained::Weights weights(input.folder());
  for (const std::string& name : weights.names()) weights.tensor(name);
}

const Known kSafetensorsIndex({"safetensors_index", try_safetensors_index});

}  // namespace
}  // namespace fovea::fuzz
