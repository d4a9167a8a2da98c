#include "fovea/pretrained.h"

#include "fuzz_readers/harness.h"

namespace fovea::fuzz {
namespace {

// A folder of another library: config.json, its weights, and what sentence-transformers puts beside them.
void try_pretrained(const Input& input) {
  const auto parts = input.parts(4);
  input.put("config.json", parts[0]);
  input.put("model.safetensors", parts[1]);
  input.put_or_remove("modules.json", parts[2]);
  make_folder(input.folder() / "1_Pooling");
  input.put("1_Pooling/config.json", parts[3]);
  Context context = fresh_context();
  import_model(context, input.folder().string());
}

const Known kPretrained({"pretrained", try_pretrained, kMemoryFloor});

}  // namespace
}  // namespace fovea::fuzz
