#include "fuzz_readers/harness.h"
#include "pretrained/import.h"

namespace fovea::fuzz {
namespace {

void try_llama2c_model(const Input& input) {
  Context context = fresh_context();
  pretrained::import_llama2c(context, input.put("model.bin"));
}

const Known kLlama2cModel({"llama2c_model", try_llama2c_model, kMemoryFloor});

}  // namespace
}  // namespace fovea::fuzz
