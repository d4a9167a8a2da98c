#include "data/listops/listops.h"
#include "fuzz_readers/harness.h"

namespace fovea::fuzz {
namespace {

void try_tsv(const Input& input) { listops::read_examples(fresh_context(), input.put("a.tsv")); }

const Known kTsv({"tsv", try_tsv});

}  // namespace
}  // namespace fovea::fuzz
