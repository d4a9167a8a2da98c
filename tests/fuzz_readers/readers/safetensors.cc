#include "fovea/safetensors.h"

#include "fuzz_readers/harness.h"

namespace fovea::fuzz {
namespace {

void try_safetensors(const Input& input) {
  const SafetensorsFile file(input.put("a.safetensors").string());
  const Context context = fresh_context();
  for (const std::string& name : file.names()) {
    const Tensor stored = file.tensor(name);
    Tensor::empty(context, stored.shape(), stored.dtype()).copy_from(stored);
  }
}

const Known kSafetensors({"safetensors", try_safetensors});

}  // namespace
}  // namespace fovea::fuzz
