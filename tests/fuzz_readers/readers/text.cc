#include "data/kinds.h"
#include "fuzz_readers/harness.h"

namespace fovea::fuzz {
namespace {

void try_text(const Input& input) {
  DataSettings settings;
  settings.kind = "text";
  settings.source = input.put("a.txt").string();
  load_data(fresh_context(), settings);
}

const Known kText({"text", try_text, std::size_t{16} << 20});

}  // namespace
}  // namespace fovea::fuzz
