#include "io/csv.h"
#include "data/kinds.h"
#include "fuzz_readers/harness.h"

namespace fovea::fuzz {
namespace {

void try_csv(const Input& input) {
  DataSettings settings;
  settings.kind = "series";
  settings.source = input.put("a.csv").string();
  settings.input_length = 2;
  settings.label_length = settings.horizon = 1;
  read_csv(settings.source);
  load_data(fresh_context(), settings);
}

const Known kCsv({"csv", try_csv});

}  // namespace
}  // namespace fovea::fuzz
