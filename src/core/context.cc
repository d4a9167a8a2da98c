#include "fovea/context.h"

#include <string>

#include "core/cores.h"
#include "core/isa.h"
#include "core/make_memory.h"
#include "core/visit_device.h"
#include "fovea/error.h"

namespace fovea {
namespace {

constexpr int kMaxThreads = 1024;

std::shared_ptr<Memory> memory_of(const ContextOptions& options) {
  return visit_built(BuiltDevices(), options.device,
                     [&]<Device D>() { return kernels::make_memory<D>(options.index); });
}

}  // namespace

Context::Context(ContextOptions options)
    : options_(std::move(options)),
      allocator_(std::make_shared<Allocator>(options_.memory,
                                             options_.pages != nullptr ? options_.pages : memory_of(options_))) {
  options_.device = memory()->device();
  chosen_isa();  // reads FOVEA_ISA before the first kernel is dispatched
  set_threads(options_.threads);
}

void Context::set_threads(int threads) {
  if (threads < 0 || threads > kMaxThreads)
    fail(ErrorCode::usage, "threads must be between 0 (all cores) and 1024, got " + std::to_string(threads), "threads");
  options_.threads = threads == 0 ? usable_cores() : threads;
  memory()->set_threads(options_.threads);
}

}  // namespace fovea
