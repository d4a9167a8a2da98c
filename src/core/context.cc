#include "fovea/context.h"

#include <omp.h>

#include <string>

#include "core/cores.h"
#include "core/isa.h"
#include "fovea/error.h"

namespace fovea {
namespace {

constexpr int kMaxThreads = 1024;

}  // namespace

Context::Context(ContextOptions options) : options_(options), allocator_(std::make_shared<Allocator>(options.memory)) {
  if (options_.device != Device::cpu)
    fail(ErrorCode::unsupported, "this build has no CUDA backend", "device", "--device cpu");
  chosen_isa();  // reads FOVEA_ISA before the first kernel is dispatched
  set_threads(options.threads);
}

void Context::set_threads(int threads) {
  if (threads < 0 || threads > kMaxThreads)
    fail(ErrorCode::usage, "threads must be between 0 (all cores) and 1024, got " + std::to_string(threads), "threads");
  options_.threads = threads == 0 ? usable_cores() : threads;
  omp_set_num_threads(options_.threads);  // oneDNN has no other way to be told
}

}  // namespace fovea
