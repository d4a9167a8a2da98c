#include "io/xz.h"

#include "fuzz_readers/harness.h"

namespace fovea::fuzz {
namespace {

constexpr std::size_t kDictionary = std::size_t{80} << 20;

void try_xz(const Input& input) {
  const Path file = input.put("a.xz");
  read_head(file, 100);
  read_maybe_xz(file);
}

// The content stands in memory twice while its blocks are put together.
const Known kXz({"xz", try_xz, kDictionary + 2 * kMemoryFloor, 2 * kMemoryFactor});

}  // namespace
}  // namespace fovea::fuzz
