#include "data/kinds.h"
#include "fuzz_readers/harness.h"

namespace fovea::fuzz {
namespace {

// Labels, pairs or translations, by what the first line looks like.
void try_labels(const Input& input) {
  input.put("train.tsv");
  DataSettings settings;
  settings.source = input.folder().string();
  settings.vocabulary = 260;
  load_data(fresh_context(), settings);
}

const Known kLabels({"labels", try_labels, std::size_t{16} << 20});

}  // namespace
}  // namespace fovea::fuzz
