#include <cstdlib>
#include <functional>

#include "fuzz_readers/harness.h"

// FOVEA_READER chooses: one program serves all readers, and -fork, -merge and -minimize_crash keep the choice.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const fovea::fuzz::Reader& reader = [] {
    const char* name = std::getenv("FOVEA_READER");
    return std::ref(fovea::fuzz::reader_named(name == nullptr ? "" : name));
  }();
  fovea::fuzz::try_input(reader, {data, size});
  return 0;
}
