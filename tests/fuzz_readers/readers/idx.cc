#include "data/pictures/pictures.h"
#include "fuzz_readers/harness.h"

namespace fovea::fuzz {
namespace {

void try_idx(const Input& input) {
  const auto parts = input.parts(2);
  PictureScale::of(read_idx(input.put("images", parts[0]), input.put("labels", parts[1])));
}

const Known kIdx({"idx", try_idx});

}  // namespace
}  // namespace fovea::fuzz
