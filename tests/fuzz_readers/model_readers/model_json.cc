#include "fovea/model.h"
#include "fuzz_readers/harness.h"

namespace fovea::fuzz {
namespace {

// config.json and the weights beside it.
void try_model_json(const Input& input) {
  const auto parts = input.parts(2);
  input.put("config.json", parts[0]);
  input.put("model.safetensors", parts[1]);
  Context context = fresh_context();
  load_model(context, input.folder().string());
}

const Known kModelJson({"model_json", try_model_json, kMemoryFloor});

}  // namespace
}  // namespace fovea::fuzz
