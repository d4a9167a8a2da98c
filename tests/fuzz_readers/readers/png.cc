#include "data/pictures/pictures.h"
#include "fuzz_readers/harness.h"

namespace fovea::fuzz {
namespace {

void try_png(const Input& input) {
  constexpr PictureSize kSmall{8, 8};
  std::vector<std::uint8_t> out(static_cast<std::size_t>(kSmall.height * kSmall.width * 3));
  read_png(input.put("a.png"), kSmall, out);
}

// The picture and, where it is interlaced, libpng's copy of it.
const Known kPng({"png", try_png, 3 * kMemoryFloor, 3 * kMemoryFactor});

}  // namespace
}  // namespace fovea::fuzz
