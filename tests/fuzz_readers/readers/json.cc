#include "io/json.h"

#include "fuzz_readers/harness.h"

namespace fovea::fuzz {
namespace {

void try_json(const Input& input) {
  json_text(parse_json(input.bytes(), "a.json"));
  parse_json_map(input.bytes(), "a.json");
}

const Known kJson({"json", try_json});

}  // namespace
}  // namespace fovea::fuzz
