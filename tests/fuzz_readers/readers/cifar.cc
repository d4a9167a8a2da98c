#include "data/pictures/pictures.h"
#include "fuzz_readers/harness.h"

namespace fovea::fuzz {
namespace {

void try_cifar(const Input& input) { PictureScale::of(read_cifar(input.put("a.bin"))); }

const Known kCifar({"cifar", try_cifar});

}  // namespace
}  // namespace fovea::fuzz
