// What has no kernel for a card yet: a kernel that is written takes its line out of here, and the last one the file.

#include <string>

#include "mechanisms/dynamic_sparse/hashing_kernels.h"
#include "mechanisms/static_sparse/fixed_heads_kernels.h"

namespace fovea {
namespace {

[[noreturn]] void missing(const char* kernel) {
  fail(ErrorCode::unsupported, std::string("there is no kernel for CUDA yet: ") + kernel, "device", "--device cpu");
}

}  // namespace

template <>
void kernels::find_buckets<Device::cuda>(const Context&, const FindBuckets&) {
  missing("find_buckets");
}

template <>
void kernels::cut_chunks<Device::cuda>(const Context&, const CutChunks&) {
  missing("cut_chunks");
}

template <>
void kernels::write_seen_pairs<Device::cuda>(const Context&, const SeenPairs&) {
  missing("write_seen_pairs");
}

template <>
void kernels::apply_given<Device::cuda>(const Context&, const ApplyGiven&) {
  missing("apply_given");
}

template <>
void kernels::apply_given_backward<Device::cuda>(const Context&, const ApplyGivenPull&) {
  missing("apply_given_backward");
}

}  // namespace fovea
